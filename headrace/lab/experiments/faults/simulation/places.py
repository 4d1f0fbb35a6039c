"""What simulated drivers write to: the checkpoint's files, a sink's folders, a broker.

Each is there once for the whole world; a driver has it through a door where every operation is a
gap, at which its schedule may have a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.io.kafka.publish import AwayError
from headrace.io.storage import Storage
from headrace.lab.experiments.faults.simulation.world import World
from headrace.lab.experiments.kafka.memory_broker import MemoryKafka
from headrace.state.file_system import System
from headrace.testing import LocalSession

T = TypeVar("T")


class FaultyFiles:
    """The checkpoint's files as one driver sees them; has no lock, as object stores have none."""

    exclusive = True

    def __init__(self, world: World) -> None:
        self._world = world
        self._files: System = world.files

    def path(self, name: str) -> str:
        """Give a file's address."""
        return self._files.path(name)

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        return self._files.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        self._world.act(f"write {_kind(name)}", lambda: self._files.write(name, data))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one."""
        return self._world.act(f"create {_kind(name)}", lambda: self._files.create(name, data))

    def size(self, name: str) -> int | None:
        """Give a file's size."""
        return self._files.size(name)

    def listed(self, folder: str) -> list[str]:
        """Give the names of all files below a folder."""
        return self._files.listed(folder)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files."""
        if names:
            self._world.act(f"delete {_kind(names[0])}", lambda: self._files.delete(names))


def _kind(name: str) -> str:
    """Name a file's kind: manifests, incarnations, state, offsets, commits ..."""
    parts = name.split("/")
    return parts[2] if parts[0] == "spark" and len(parts) > 2 else parts[0]


class FaultyFolders:
    """A sink's folders as one driver sees them; see `headrace.io.storage.Storage`."""

    atomic_moves = True

    def __init__(self, world: World, folders: Storage) -> None:
        self._world = world
        self._folders = folders

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self._folders.exists(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return self._folders.is_folder(path)

    def names(self, path: str) -> list[str]:
        """Give the names in a folder."""
        return self._folders.names(path)

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        self._world.act("sink make folder", lambda: self._folders.make_folder(path))

    def move(self, source: str, target: str) -> None:
        """Give a folder another name."""
        self._world.act("sink move", lambda: self._folders.move(source, target))

    def remove(self, path: str) -> None:
        """Remove a file or folder."""
        self._world.act("sink remove", lambda: self._folders.remove(path))

    def read(self, path: str) -> bytes:
        """Read a small file."""
        return self._folders.read(path)

    def write(self, path: str, data: bytes) -> None:
        """Write a small file."""
        self._world.act("sink write", lambda: self._folders.write(path, data))


def files_at(folders: Storage, path: str) -> list[str]:
    """Give the files that a reader of a sink's path finds: those in folders of epochs."""
    epochs = [f"{path}/{name}" for name in folders.names(path) if name.startswith("epoch=")]
    return [
        f"{epoch}/{name}" for epoch in epochs for name in folders.names(epoch)
        if name[0] not in "._"
    ]  # fmt: skip


class Session(LocalSession):
    """Sinks of a driver write to the world's folders."""

    def __init__(self, world: World) -> None:
        self._world = world

    def storage(self) -> Storage:
        """Give the folders as this driver sees them."""
        return FaultyFolders(self._world, self._world.storage)


class FaultyKafka(MemoryKafka):
    """A broker whose verbs are gaps; what goes wrong there, a driver hears as from Kafka's client.

    Args:
        world: whose drivers ask it.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def answer(self, verb: str, effect: Callable[[], T]) -> T:
        """Do what a verb asks for, unless a fault comes between."""
        try:
            return self._world.act(f"broker {verb}", effect)
        except OSError as error:
            raise AwayError(str(error)) from error
