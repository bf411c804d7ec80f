"""Compiles and runs the Java test programs against the client jars that Maven brought."""

import os
import re
import subprocess
from pathlib import Path

from .servers import JAVA_SERVER, REPO

SOURCES = REPO / "tests/client_java"
PACKAGE = "dev.zkensemble.tests"
JVM = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def class_path():
    return subprocess.run([str(JAVA_SERVER), "classpath"], check=True, capture_output=True, text=True).stdout


def compiled(directory):
    """Compiles the programs into `directory` and returns the class path to run them with."""
    jars = class_path()
    files = sorted(str(p) for p in SOURCES.rglob("*.java"))
    done = subprocess.run(["javac", "-Xlint:all,-processing,-classfile,-try", "-Werror", "-d", str(directory), "-cp", jars, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{directory}{os.pathsep}{jars}"


def command(classes, main, *arguments):
    return [*JVM, "-cp", classes, f"{PACKAGE}.{main}", *map(str, arguments)]


def cases(name):
    """The cases of a class: its public methods, as its source names them."""
    text = Path(SOURCES, *PACKAGE.split("."), f"{name}.java").read_text()
    return [case for case in re.findall(r"^    public void (\w+)\(\)", text, re.M) if case != "close"]
