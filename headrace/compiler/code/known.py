"""What is known beforehand of other people's functions: who mutates, who reads a clock or a dice.

Tables only. Names are dotted as the modules define them. What is missing here is followed into its
source where there is one, and distrusted where there is none.
"""

from __future__ import annotations

MUTATING_METHODS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "insert", "remove", "pop", "popleft"}
    | {"popitem", "clear", "sort", "reverse", "rotate", "update", "add", "discard", "setdefault"}
    | {"difference_update", "intersection_update", "symmetric_difference_update", "subtract"}
    | {"move_to_end", "put", "put_nowait", "get_nowait", "write", "writelines", "send"}
    | {"__setitem__", "__delitem__", "__setattr__", "__iadd__"}
)
"""Methods that change the object they are called on, for the containers everybody uses."""

READING_METHODS = frozenset(
    {"get", "items", "keys", "values", "copy", "count", "index", "union", "intersection"}
    | {"difference", "issubset", "issuperset", "isdisjoint", "most_common", "elements", "total"}
    | {"startswith", "endswith", "split", "join", "format", "lower", "upper", "strip", "encode"}
    | {"decode", "replace", "match", "search", "fullmatch", "findall", "finditer", "sub"}
    | {"group", "groups", "groupdict", "span", "start", "end", "title", "isdigit", "isalpha"}
    | {"isoformat", "strftime", "timestamp", "tobytes", "tolist", "hex", "bit_length"}
)
"""Methods that leave their object alone, on every common type that has them."""

# Called with a shared object as its first argument, it changes that object.
MUTATING_FUNCTIONS = frozenset(
    {"builtins.next", "builtins.setattr", "builtins.delattr", "random.shuffle"}
    | {f"heapq.{f}" for f in ("heappush", "heappop", "heapify", "heapreplace", "heappushpop")}
    | {f"_heapq.{f}" for f in ("heappush", "heappop", "heapify", "heapreplace", "heappushpop")}
    | {"bisect.insort", "bisect.insort_left", "bisect.insort_right"}
    | {"_bisect.insort", "_bisect.insort_left", "_bisect.insort_right"}
    | {"operator.setitem", "operator.delitem", "_operator.setitem", "_operator.delitem"}
    | {"operator.iadd", "_operator.iadd"}
)

UNREADABLE_FUNCTIONS = frozenset({"builtins.exec", "builtins.eval", "builtins.__import__"})
"""They may do anything."""

# The result is a new container, so changing it changes nothing shared.
FRESH_RESULTS = frozenset(
    {"list", "dict", "set", "tuple", "frozenset", "sorted", "str", "int", "float", "bool", "len"}
    | {"sum", "abs", "round", "repr", "bytes", "any", "all", "hash", "range", "isinstance"}
)

_DICE_MODULES = frozenset({"random", "_random", "secrets", "uuid", "numpy.random", "time"})
_DICE_FUNCTIONS = {
    "builtins.hash": "hash() of text differs between processes",
    "builtins.id": "id() differs between processes",
    "builtins.open": "open() reads what may change",
    "io.open": "open() reads what may change",
    "_io.open": "open() reads what may change",
    "gzip.open": "open() reads what may change",
    "bz2.open": "open() reads what may change",
    "lzma.open": "open() reads what may change",
    "builtins.input": "input() waits for a person",
    "posix.urandom": "calls os.urandom",
    "posix.getpid": "calls os.getpid",
    "os.urandom": "calls os.urandom",
    "os.getenv": "reads the environment",
}
_PURE_TIME = frozenset(
    {"strftime", "strptime", "gmtime", "localtime", "mktime", "struct_time", "sleep"}
)
#: Other packages' functions that read files.
_WORLD_PREFIXES = (
    "apache_beam.io.", "pandas.io.", "pandas.read_", "pyarrow.fs", "pyarrow._fs", "pyarrow.parquet",
    "pyarrow._parquet", "pyarrow.csv", "pyarrow._csv", "numpy.load", "numpy.fromfile",
    "numpy.genfromtxt", "numpy.lib.npyio", "numpy.lib._npyio_impl",
)
_NOW_METHODS = frozenset({"now", "utcnow", "today"})

# Modules of the standard library that ask the machine, the network, or other threads.
_WORLD_MODULES = frozenset(
    {"asyncio", "concurrent", "ctypes", "curses", "dbm", "email.utils", "faulthandler", "fcntl"}
    | {"filecmp", "fileinput", "ftplib", "gc", "getpass", "glob", "grp", "http", "imaplib"}
    | {"importlib", "inspect", "linecache", "locale", "mmap", "multiprocessing", "netrc", "os"}
    | {"pathlib", "platform", "poplib", "posix", "posixpath", "pwd", "resource", "sched"}
    | {"select", "shelve", "shutil", "signal", "site", "smtplib", "socket", "socketserver"}
    | {"sqlite3", "_sqlite3", "ssl", "subprocess", "sys", "sysconfig", "syslog", "tempfile"}
    | {"termios", "threading", "_thread", "tty", "urllib.request", "weakref", "webbrowser", "nt"}
    | {"xmlrpc", "genericpath", "_socket", "_posixsubprocess", "tarfile", "zipfile", "zoneinfo"}
)
#: What of these only looks at its arguments.
_PURE_OF_WORLD = frozenset(
    {f"{m}.{f}" for m in ("posixpath", "ntpath", "os.path") for f in (
        "join", "split", "splitext", "basename", "dirname", "normpath", "isabs", "commonpath",
        "commonprefix", "relpath", "splitdrive", "normcase")}
    | {f"genericpath.{f}" for f in ("commonprefix",)}
    | {"os.fspath", "os.fsencode", "os.fsdecode", "posix.fspath", "sys.getsizeof", "sys.intern"}
    | {"sys.exc_info", "threading.Lock", "_thread.allocate_lock", "inspect.isclass"}
    | {f"pathlib.{c}" for c in ("PurePath", "PurePosixPath", "PureWindowsPath", "Path",
                                "PosixPath")}
    | {"zoneinfo.ZoneInfo"}
)

WORLD_METHODS = frozenset(
    {"read_text", "read_bytes", "exists", "is_file", "is_dir", "stat", "lstat", "iterdir", "glob"}
    | {"rglob", "resolve", "absolute", "expanduser", "touch", "mkdir", "unlink", "write_text"}
    | {"write_bytes", "urlopen", "recv", "recvfrom", "sendall", "getresponse", "execute"}
    | {"fetchone", "fetchall", "cwd", "home", "getpeername", "communicate"}
)
"""Methods that ask or change the world, on every common type that has them."""

SHARED_RESULTS = frozenset(
    {"builtins.globals", "builtins.vars", "builtins.type", "decimal.getcontext"}
    | {"_decimal.getcontext", "threading.current_thread", "asyncio.get_event_loop"}
    | {"gc.get_objects", "sys._getframe", "contextvars.copy_context", "_contextvars.copy_context"}
)
"""Functions whose result outlives the call."""

#: Modules whose functions give out what they were given, or an item of it.
HANDING_ON = frozenset(
    {"operator", "_operator", "typing", "itertools", "functools", "_functools", "copy", "heapq"}
    | {"_heapq", "random", "collections", "builtins", "contextlib"}
)

_STATELESS_PACKAGES = frozenset({"apache_beam", "numpy", "pandas", "pyarrow"})


def is_stateless(module: str) -> bool:
    """Whether a package's functions keep nothing that a pipeline could see."""
    if module.startswith("apache_beam.examples"):
        return False  # written as a user would
    return module.split(".")[0] in _STATELESS_PACKAGES


def dice(dotted: str) -> str:
    """Why a function's answer may differ from run to run; empty when it does not."""
    if dotted in _DICE_FUNCTIONS:
        return _DICE_FUNCTIONS[dotted]
    module, _, name = dotted.rpartition(".")
    if module == "time" and name in _PURE_TIME:
        return ""
    if any(module == m or module.startswith(f"{m}.") for m in _DICE_MODULES):
        return f"calls {dotted}"
    if dotted in _PURE_OF_WORLD:
        return ""
    if dotted.startswith(_WORLD_PREFIXES):
        return f"calls {dotted}, which asks the world"
    if any(module == m or module.startswith(f"{m}.") for m in _WORLD_MODULES):
        return f"calls {dotted}, which asks the world"
    if name in _NOW_METHODS and any(m in module for m in ("date", "timestamp", "Timestamp")):
        return f"calls {dotted}"
    return ""
