"""The person's program, executed as ``python script.py arguments`` or ``python -m module arguments`` would."""

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
    """(code, None), or (None, problem) where the script is not valid Python."""
    path = request["script"]
    try:
        return compile(request["sources"][os.path.realpath(path)], path, "exec", dont_inherit=True), None
    except (SyntaxError, ValueError) as error:
        return None, _describe(error, path)


def execute(request, code):
    """Run it as ``__main__``; None if it ran to its end, else what stopped it as a dictionary."""
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
        # Anything but a number is printed, and the status is 1: Python's own rule.
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
        # The script must find its own neighbours, as it would under plain python.
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
    """The same exception, and those that led to it, without the frames of our hooks."""
    kept = [row for row in told.stack if not row.filename.startswith(folder)]
    told.stack = traceback.StackSummary.from_list(kept)
    for earlier in (told.__cause__, told.__context__):
        if earlier is not None:
            _without_frames_of(folder, earlier)
    return told


def _describe(error, path):
    """An exception as the person would have seen it, without our frames above the script's."""
    own = user_code.FOLDER + os.sep
    trail = error.__traceback__
    while trail is not None and trail.tb_frame.f_code.co_filename.startswith((own, "<frozen")):
        trail = trail.tb_next
    rows = [row for row in traceback.extract_tb(trail) if not row.filename.startswith(own)]
    text = "".join(_without_frames_of(own, traceback.TracebackException(type(error), error, trail)).format())
    # Where a library raised, the line of the person's that called it is the one to look at.
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
        # Given where not the script failed but what runs it.
        "hint": getattr(error, "skyline_hint", ""),
    }
