#!/bin/sh
# Decides whether this machine has a Java that Spark can run on.
#
# Takes JAVA_HOME and PATH. Leaves with 0 when Java 17 or newer is there (or could be installed),
# with 1 and the exact thing to do when it is not. Installs only where it may do so without asking:
# as root, by apt-get.
set -eu

MINIMUM=17 # Spark 4 refuses older ones

# The major version of the given java program; nothing when it cannot be run.
# "1.8.0_402" counts as 8, "21-ea" and "17.0.15" by their first number.
major_version() {
    "$1" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

# Spark's own order: JAVA_HOME first, and PATH only when JAVA_HOME is not set.
java_program() {
    if [ -n "${JAVA_HOME:-}" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

is_enough() {
    program=$(java_program)
    [ -n "$program" ] || return 1
    found=$(major_version "$program")
    [ -n "$found" ] && [ "$found" -ge "$MINIMUM" ]
}

refuse() {
    echo "headrace needs Java $MINIMUM or newer, and Spark looks for it in JAVA_HOME, then on PATH." >&2
    program=$(java_program)
    if [ -n "$program" ]; then
        echo "Found instead: $program (version '$(major_version "$program")')." >&2
    else
        echo "Found none." >&2
    fi
    echo "$1" >&2
    exit 1
}

if is_enough; then
    exit 0
fi

# A JAVA_HOME that points at an old Java would still win over whatever we install.
if [ -n "${JAVA_HOME:-}" ]; then
    refuse "Point JAVA_HOME at a Java $MINIMUM or newer, or unset it; then run make again."
fi

if [ "$(uname -s)" = Darwin ]; then
    refuse 'Run: brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"'
fi

if ! command -v apt-get >/dev/null 2>&1; then
    refuse "Install a Java $MINIMUM (or newer) runtime with this system's package manager; then run make again."
fi

if [ "$(id -u)" -ne 0 ]; then
    refuse "Run: sudo apt-get install openjdk-17-jre-headless (or openjdk-21-jre-headless); then run make again."
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null || echo "apt-get update failed; trying with the lists at hand" >&2
for release in 17 21; do
    if apt-get install -q -y --no-install-recommends "openjdk-$release-jre-headless" </dev/null; then
        break
    fi
done

is_enough || refuse "apt-get could install neither openjdk-17-jre-headless nor openjdk-21-jre-headless."
