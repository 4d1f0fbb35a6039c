"""Finds the Java that Spark will start, and says what to do where there is none that it can use."""

from __future__ import annotations

import os
import shutil
import subprocess

from headrace.errors import SessionError

MINIMUM_JAVA = 17


def java_version() -> str:
    """Give a usable Java's version line, or refuse with the remedy."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = (
        "Install a JRE 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17) or point JAVA_HOME at one."
    )
    if not java or not os.path.exists(java):
        msg = f"Spark needs Java {MINIMUM_JAVA} or newer and none was found. {remedy}"
        raise SessionError(msg)
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    # Java first says which options it has picked up from the environment.
    version = next((line for line in text.splitlines() if ' version "' in line), "")
    major = _java_major(version)
    if major < MINIMUM_JAVA:
        msg = f"Spark needs Java {MINIMUM_JAVA} or newer; {java} is Java {major}. {remedy}"
        raise SessionError(msg)
    return version


def _java_major(text: str) -> int:
    parts = text.split('"')
    number = parts[1] if len(parts) > 1 else "0"
    pieces = number.split(".")
    digits = "".join(c for c in (pieces[1] if pieces[0] == "1" else pieces[0]) if c.isdigit())
    return int(digits or 0)
