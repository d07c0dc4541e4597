"""Runs the script as ``python script.py arguments`` would, under observation, and reports how it ended."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from . import hidden_modules, user_code, variant
from .channel import Channel
from .program import compile_script, execute
from .sandbox.sandbox import Sandbox


def main(address, key):
    """Take the request from the channel, run the script, and exit without running exit handlers."""
    _show_output_at_once()
    channel = Channel(address, key)
    request = channel.next_command()
    if request["do"] == "prepare":
        # Several runs start in parallel: only the import of torch can overlap with other runs.
        with contextlib.suppress(ImportError):
            import torch
        request = channel.next_command()
    # The script is compiled before torch is imported, so that a syntax error is reported at once.
    code, problem = compile_script(request)
    if problem is not None:
        channel.send("failed", boundaries=0, **problem)
        _leave(0)
    try:
        import torch
    except ImportError as error:
        channel.send("no_torch", message=str(error), python=sys.version.split()[0], executable=sys.executable)
        _leave(0)
    from .devices.backend import is_available
    from .ranks import followers, spawned
    from .ranks.claim import Claim, leave_address

    # Availability is queried only if it matters.
    cuda = request.get("device") != "cuda" or is_available("cuda")
    channel.send("hello", torch=torch.__version__, cuda=cuda)
    if request.get("mode") == "shapes" and not hasattr(torch, "get_autocast_dtype"):
        # The CPU's autocast, which replaces the GPU's here, does not support float16 in earlier versions.
        message = (
            f"Tracing shapes needs PyTorch 2.4 or later; the script's interpreter has {torch.__version__}"
        )
        hint = "Name another interpreter with --interpreter."
        channel.send("failed", message=message, traceback="", file="", line=0, hint=hint)
        _leave(0)
    leave_address(request["scratch"], address, key)
    # This caches which modules are the user's, before the sandbox slows down every access to a path.
    user_code.imported_files()
    stepper = observe(request, Claim(request["scratch"], channel))
    spawned.install(request)
    if request.get("ranks", 1) > 1:
        followers.start(request, channel)
    if request.get("may_start_again"):
        hidden_modules.watch_variables(lambda names: _ask_for_another(channel, names))
    stepper.began = time.perf_counter()
    problem = execute(request, code)
    if problem is not None and request.get("ranks", 1) > 1:
        problem = followers.first_problem(request) or problem
    if problem is not None:
        channel.send("failed", boundaries=stepper.boundaries, modules=user_code.imported_files(), **problem)
    else:
        channel.send("finished", **stepper.ended(), processes=spawned.started())
    _leave(0)


def _ask_for_another(channel, names):
    """Report that the script's own imports would differ: the parent ends this process and starts another."""
    channel.send("variables", names=names)
    channel.next_command()


def observe(request, claim):
    """Install all hooks in this process; returns the stepper of the iterations."""
    if request.get("mode") == "shapes":
        from .shape_tracing.stepper import ShapeStepper

        stepper = ShapeStepper(claim, request["gpu"])
        stepper.install()
        protect(request)
        return stepper
    from .stepper import Stepper

    stepper = Stepper(
        claim,
        request["warmup"],
        replay_evaluation=request.get("evaluation") != "run",
        longest_s=request.get("longest_step_s"),
        inference=request.get("loop") == "inference",
    )
    stepper.install()
    protect(request)
    return stepper


def protect(request):
    """Set up every process of the run: the sandbox, and the source texts to run."""
    from .ranks import process_group

    policy, network = request.get("side_effects", "redirect"), request.get("network", "open")
    sandbox = Sandbox(request["scratch"], request["script"], policy, network)
    sandbox.install()
    variant.serve_files(request["sources"], request["scratch"])
    variant.override_sources(request["sources"])
    variant.resize_loaders(request.get("loader_batch"))
    process_group.install()


def _show_output_at_once():
    """Write output line by line, as on a terminal: a run that is killed cannot flush its buffers."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(line_buffering=True)


def _leave(status):
    for stream in (sys.stdout, sys.stderr):
        # The script may have replaced or closed them.
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)
