"""Distinguishes the user's own code from libraries, and finds the lines of frames in it."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import types

FOLDER = os.path.dirname(os.path.abspath(__file__))
"""The folder of the code that observes."""


def _library_prefixes():
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else [])
    paths.add(site.getusersitepackages() if hasattr(site, "getusersitepackages") else None)
    paths.add(FOLDER)
    return tuple(os.path.realpath(path) + os.sep for path in paths if path)


LIBRARY_PREFIXES = _library_prefixes()
_KNOWN = {}
_FOLDERS = {}


def is_user_file(path):
    """True if a source path is the user's: an existing file that belongs to no library and no compiler."""
    known = _KNOWN.get(path)
    if known is None:
        real = _real(path)
        known = (
            not path.startswith("<")
            and not real.startswith(LIBRARY_PREFIXES)
            and (os.sep + "site-packages" + os.sep) not in real
            and (os.sep + "dist-packages" + os.sep) not in real
            and not _is_compiled(real)
            and os.path.isfile(real)
        )
        _KNOWN[path] = known
    return known


def _is_compiled(real):
    """True for a file that PyTorch's compiler wrote."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    own = bool(folder) and real.startswith(os.path.realpath(folder) + os.sep)
    return own or (os.sep + "torchinductor_") in real


def _real(path):
    """Like ``os.path.realpath``, but with a cache of folders, since many modules are in few folders."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in _FOLDERS:
        _FOLDERS[folder] = os.path.realpath(folder)
    real = os.path.join(_FOLDERS[folder], name)
    return os.path.realpath(real) if os.path.islink(real) else real


def user_frames(frame=None):
    """The frames of the user's code on the stack of ``frame`` (default: the caller), innermost first."""
    frame = frame or sys._getframe(1)
    frames = []
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames


def qualified_name(code):
    """The name of a code object as tracebacks print it."""
    return getattr(code, "co_qualname", code.co_name)


def line_of(frame):
    """A frame's current line as ``{"file", "line", "function"}``."""
    return {
        "file": os.path.realpath(frame.f_code.co_filename),
        "line": line_number(frame),
        "function": qualified_name(frame.f_code),
    }


def line_number(frame):
    """The current line of a frame. An instruction without a line belongs to the line before it."""
    line = frame.f_lineno
    if line is None:
        code = frame.f_code
        before = [number for start, _, number in code.co_lines() if number and start <= frame.f_lasti]
        line = before[-1] if before else code.co_firstlineno
    return line


def innermost_line():
    """The current line of the user's code, or None."""
    frames = user_frames(sys._getframe(1))
    return line_of(frames[0]) if frames else None


def imported_files():
    """Real paths of the user's modules that are imported now, without the script itself."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = _source_of(module)
        if name != "__main__" and path and path.endswith(".py") and is_user_file(path):
            found[os.path.realpath(path)] = True
    return list(found)


def _source_of(module):
    if not issubclass(type(module), types.ModuleType):
        return None
    # getattr would trigger modules that load lazily.
    names = object.__getattribute__(module, "__dict__")
    origin = getattr(names.get("__spec__"), "origin", None)
    path = names.get("__file__") or origin
    return path if isinstance(path, str) else None
