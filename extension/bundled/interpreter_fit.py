"""Checks whether an interpreter can run the Skyline bundled next to this file. Importable by any Python 3."""

import importlib.util
import os
import re
import sys

LIBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libs")
OLDEST_NUMPY = (1, 24)


def misfit():
    """The reason why the interpreter cannot run Skyline, and the next step. None if it can.

    The text completes a sentence that starts with the interpreter.
    """
    built = built_for()
    if not built:
        return (
            "cannot run this extension's bundled Skyline, because %s is missing; reinstall the extension"
            % LIBS
        )
    if not has_compiled_part():
        own = (
            "is %s, and the Skyline in this extension supports Python %d.%d to %d.%d"
            if sys.version_info[:2] not in built
            else "is %s for another platform than the Skyline in this extension, which supports Python %d.%d to %d.%d"
        ) % ((own_name(),) + built[0] + built[-1])
        return (
            "%s: choose one of these versions, or install Skyline into this Python (%s -m pip install skyline-profiler)"
            % (
                own,
                sys.executable,
            )
        )
    if importlib.util.find_spec("numpy") is None:
        return "has no NumPy, which Skyline needs: run %s -m pip install numpy" % sys.executable
    numpy = numpy_version()
    if numpy is not None and numpy < OLDEST_NUMPY:
        return "has NumPy %d.%d, and Skyline needs %d.%d or newer: run %s -m pip install --upgrade numpy" % (
            numpy + OLDEST_NUMPY + (sys.executable,)
        )
    return None


def built_for():
    """The Python versions for which the bundled compiled modules exist, oldest first."""
    try:
        names = os.listdir(os.path.join(LIBS, "msgspec"))
    except OSError:
        return []
    found = [re.match(r"_core\.cpython-3(\d+)-", name) for name in names]
    return sorted((3, int(one.group(1))) for one in found if one)


def has_compiled_part():
    """True if a compiled module exists for this interpreter's version, processor and build."""
    from importlib.machinery import EXTENSION_SUFFIXES

    return any(
        os.path.exists(os.path.join(LIBS, "msgspec", "_core" + suffix)) for suffix in EXTENSION_SUFFIXES
    )


def own_name():
    """Name and version of this interpreter."""
    name = "Python %d.%d.%d" % sys.version_info[:3]
    if sys.implementation.name != "cpython":
        return "%s (%s)" % (name, sys.implementation.name)
    if "t" in getattr(sys, "abiflags", ""):
        return name + " (free-threaded)"
    return name


def numpy_version():
    """Major and minor version of the environment's NumPy. None if its metadata is missing or invalid."""
    try:
        from importlib.metadata import version

        major, minor = version("numpy").split(".")[:2]
        return int(major), int(minor)
    except Exception:
        return None
