"""Executes the user's program like ``python script.py arguments`` or ``python -m module arguments``."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import sys
import threading
import traceback
import types

from . import notebook, user_code
from .sandbox import refusal


def compile_script(request):
    """(code, None), or (None, problem) if the script is not valid Python."""
    path = request["script"]
    try:
        return compile(request["sources"][os.path.realpath(path)], path, "exec", dont_inherit=True), None
    except (SyntaxError, ValueError) as error:
        return None, _describe(error, path)


def execute(request, code):
    """Run the code as ``__main__``; None if it ran to its end, else the error as a dictionary."""
    path = request["script"]
    module = types.ModuleType("__main__")
    try:
        _set_up(module, request, path)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)
        _wind_up_threads()
    except SystemExit as stop:
        if stop.code in (None, 0):
            return None
        text = stop.code if isinstance(stop.code, str) else f"exit status {stop.code}"
        # Python prints a code that is not a number, and exits with status 1.
        status = stop.code if isinstance(stop.code, int) else 1
        return {
            "kind": "SystemExit",
            "message": text,
            "traceback": "",
            "file": path,
            "line": 0,
            "status": int(status),
        }
    except BaseException as error:
        return _describe(error, path)
    return None


def _set_up(module, request, path):
    name = request.get("module")
    names = module.__dict__
    names.update(__builtins__=builtins, __file__=path, __cached__=None, __package__=None, __spec__=None)
    sys.argv[:] = [path, *request["arguments"]]
    if notebook.is_one(path):
        notebook.set_up(names, path, request["sources"][os.path.realpath(path)])
        return
    if not name:
        # The script must be able to import modules from its folder, as under plain Python.
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", path)
        return
    sys.path.insert(0, os.getcwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(name + ".__main__")
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name}", name=name)
    names.update(__spec__=spec, __package__=spec.parent, __loader__=spec.loader, __cached__=spec.cached)


def _wind_up_threads():
    """Wait for threads that still work, as Python does at the end of a script.

    Pools without a shutdown are closed first; otherwise their threads would wait forever.
    """
    for told in reversed(getattr(threading, "_threading_atexits", [])):
        told()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _without_frames_of(folder, told):
    """The exception and its causes, without the frames of Skyline's hooks."""
    kept = [row for row in told.stack if not row.filename.startswith(folder)]
    told.stack = traceback.StackSummary.from_list(kept)
    for earlier in (told.__cause__, told.__context__):
        if earlier is not None:
            _without_frames_of(folder, earlier)
    return told


def _describe(error, path):
    """An exception as the user would see it, without Skyline's frames."""
    own = user_code.FOLDER + os.sep
    trail = error.__traceback__
    while trail is not None and trail.tb_frame.f_code.co_filename.startswith((own, "<frozen")):
        trail = trail.tb_next
    rows = [row for row in traceback.extract_tb(trail) if not row.filename.startswith(own)]
    text = "".join(_without_frames_of(own, traceback.TracebackException(type(error), error, trail)).format())
    # If a library raised the error, the line of the user's code that called it is reported.
    own_rows = [row for row in rows if user_code.is_user_file(row.filename)]
    last = (own_rows or rows or [None])[-1]
    file, line = (last.filename, last.lineno) if last else (path, 0)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno or 0
    named = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    kept = refusal.explanation(error)
    if kept:
        named = f"{named}. {kept}"
    return {
        "kind": type(error).__name__,
        "message": str(error) if hasattr(error, "skyline_hint") else named,
        "traceback": text,
        "file": file,
        "line": line,
        # It is set if Skyline failed, not the script.
        "hint": getattr(error, "skyline_hint", ""),
    }
