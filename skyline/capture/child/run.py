"""Runs the script as ``python script.py arguments`` would, under observation, and reports how it ended."""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import traceback
import types

from . import overrides
from .channel import Channel
from .sandbox import Sandbox


def main(address, key):
    """Take the request from the channel, run the script, leave without running exit handlers."""
    channel = Channel(address, key)
    request = channel.next_command()
    if request["do"] == "prepare":
        # Several runs are coming: importing torch is the part of their start that they can do side by side.
        with contextlib.suppress(ImportError):
            import torch
        request = channel.next_command()
    # Compiled before torch is imported: a syntax error is told at once.
    code, problem = _compile(request)
    if problem is not None:
        channel.send("failed", boundaries=0, **problem)
        _leave(0)
    try:
        import torch
    except ImportError as error:
        channel.send("no_torch", message=str(error), python=sys.version.split()[0], executable=sys.executable)
        _leave(0)
    from .stepper import Stepper

    channel.send("hello", torch=torch.__version__, cuda=torch.cuda.is_available())
    sandbox = Sandbox(request["scratch"])
    stepper = Stepper(channel, request["warmup"])
    stepper.observer.install()
    sandbox.install()
    torch.save = sandbox.saving(torch.save)
    overrides.install(request["sources"])
    problem = _run_script(request, code)
    if problem is not None:
        channel.send("failed", boundaries=stepper.boundaries, **problem)
    else:
        observer = stepper.observer
        channel.send(
            "finished",
            boundaries=stepper.boundaries,
            optimizers=len(observer.optimizers),
            stepped=sum(1 for seen in observer.optimizers.values() if seen.steps),
            backward_calls=observer.backward_calls,
            fetches=sum(seen.fetches for seen in observer.loaders.values()),
        )
    _leave(0)


def _compile(request):
    path = request["script"]
    try:
        return compile(request["sources"][os.path.realpath(path)], path, "exec", dont_inherit=True), None
    except (SyntaxError, ValueError) as error:
        return None, _describe(error, path)


def _run_script(request, code):
    """Execute the script; None if it ran to its end, else what stopped it as a dictionary."""
    path = request["script"]
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __spec__=None, __cached__=None)
    sys.argv[:] = [path, *request["arguments"]]
    # The script must find its own neighbours, as it would under plain python.
    sys.path.insert(0, os.path.dirname(path))
    own = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SystemExit as stop:
        if stop.code in (None, 0):
            return None
        text = stop.code if isinstance(stop.code, str) else f"the script exited with status {stop.code}"
        return {"kind": "SystemExit", "message": text, "traceback": "", "file": path, "line": 0}
    except BaseException as error:
        return _describe(error, path)
    finally:
        sys.modules["__main__"] = own if own is not None else module
    return None


def _describe(error, path):
    """An exception as the person would have seen it, without our frames above the script's."""
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    trail = error.__traceback__
    while trail is not None and trail.tb_frame.f_code.co_filename.startswith(own):
        trail = trail.tb_next
    rows = [row for row in traceback.extract_tb(trail) if not row.filename.startswith(own)]
    text = "".join(traceback.format_exception(type(error), error, trail))
    last = rows[-1] if rows else None
    file, line = (last.filename, last.lineno) if last else (path, 0)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno or 0
    return {
        "kind": type(error).__name__,
        "message": f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        "traceback": text,
        "file": file,
        "line": line,
    }


def _leave(status):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
