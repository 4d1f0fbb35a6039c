#!/bin/sh
# Decides whether this machine has a Redis server for the Yahoo benchmark's Redis option.
#
# Takes PATH. Leaves with 0 when redis-server is there (or could be installed), with 1 and the exact
# thing to do when it is not. Installs only where it may do so without asking: as root, by apt-get.
# Starts nothing: tests start a server of their own on a free port.
set -eu

refuse() {
    echo "The Yahoo benchmark's Redis option needs redis-server on PATH; found none." >&2
    echo "$1" >&2
    exit 1
}

is_there() {
    command -v redis-server >/dev/null 2>&1
}

if is_there; then
    exit 0
fi

if [ "$(uname -s)" = Darwin ]; then
    refuse "Run: brew install redis"
fi

if ! command -v apt-get >/dev/null 2>&1; then
    refuse "Install Redis with this system's package manager."
fi

if [ "$(id -u)" -ne 0 ]; then
    refuse "Run: sudo apt-get install redis-server"
fi

# The package would start a server of the whole machine; nobody asked for one. A policy that is
# there already is somebody's decision and stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null || echo "apt-get update failed; trying with the lists at hand" >&2
apt-get install -q -y --no-install-recommends redis-server </dev/null || true

is_there || refuse "apt-get could not install redis-server."
