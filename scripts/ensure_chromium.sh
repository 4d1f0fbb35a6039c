#!/bin/sh
# Decides whether this machine has a Chromium, in which tests open the pages that headrace writes.
#
# Takes PATH. Leaves with 0 when a browser is there (or could be installed), with 1 and the exact thing
# to do when it is not. Installs only where it may do so without asking: as root, by apt-get, and only
# Debian's own package: elsewhere the package of this name may be a stub that brings another store.
set -eu

refuse() {
    echo "The tests of pages need chromium, chromium-browser or google-chrome on PATH; found none." >&2
    echo "$1" >&2
    exit 1
}

is_there() {
    for name in chromium chromium-browser google-chrome; do
        if command -v "$name" >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

if is_there; then
    exit 0
fi

if [ "$(uname -s)" = Darwin ]; then
    refuse "Install Chromium or Chrome, and put a command of one of these names on PATH."
fi

if ! command -v apt-get >/dev/null 2>&1 || ! grep -q '^ID=debian$' /etc/os-release 2>/dev/null; then
    refuse "Install Chromium with this system's package manager."
fi

if [ "$(id -u)" -ne 0 ]; then
    refuse "Run: sudo apt-get install chromium"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null || echo "apt-get update failed; trying with the lists at hand" >&2
apt-get install -q -y --no-install-recommends chromium </dev/null || true

is_there || refuse "apt-get could not install chromium."
