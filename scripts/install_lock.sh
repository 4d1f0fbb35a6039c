#!/bin/sh
# Installs requirements.lock into the environment of the interpreter that is given.
#
# By uv, itself of the version and with the hashes of the lock: a third of pip's time. Where uv cannot
# be had, or does not reach the package index (it reads no pip.conf), pip does it as well.
set -eu
cd "$(dirname "$0")/.."

python=$1
pip() {
    "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$1"
}

own=$(mktemp)
trap 'rm -f "$own"' EXIT
awk '/^uv==/ { found = 1; print; next } found && /^ / { print; next } found { exit }' \
    requirements.lock >"$own"

if pip "$own" && "$python" -m uv pip install --quiet --compile-bytecode --python "$python" \
    --require-hashes -r requirements.lock; then
    exit 0
fi
echo "uv could not install requirements.lock; pip tries it." >&2
pip requirements.lock
