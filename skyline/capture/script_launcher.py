"""Starts runs of one script, all with the same text, and waits for the end of their warm-up."""

from __future__ import annotations

import os
import re
import socket
import threading
from dataclasses import asdict
from pathlib import Path

import msgspec

from skyline.capture.batch_way import SizedRun
from skyline.capture.child_process import ChildProcess
from skyline.capture.events import Ready
from skyline.capture.guard import RunLimits
from skyline.capture.interpreter import resolve_interpreter
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Known, OutputCallback, Progress, ProgressCallback
from skyline.errors import CaptureImpossible, SkylineError
from skyline.source.batch_size import find
from skyline.source.cells import is_notebook
from skyline.source.knob import KnobSearch
from skyline.source.text import SourceText
from skyline.stage_failures import failure

_COMPILER_VARIABLE = re.compile(r"\bTORCH(DYNAMO|INDUCTOR|_)[A-Z_]+")
"""The names of most environment variables that PyTorch's compiler reads when it is imported."""


class ScriptLauncher:
    """Starts runs of one script with the text that the script has when the launcher is created.

    ``progress`` receives each stage of a run, unless the run is started ``quiet``.
    """

    def __init__(
        self,
        request: CaptureRequest,
        *,
        progress: ProgressCallback | None = None,
        output: OutputCallback | None = None,
        cancel: threading.Event | None = None,
        starter: Starter = start_fresh,
    ) -> None:
        script = request.script.absolute()
        overrides = {str(Path(path).resolve()): text for path, text in request.source_overrides}
        real = str(script.resolve())
        # The text is read once, so that later edits of the file do not affect this profile.
        self.text = (
            SourceText.of(str(script), overrides[real]) if real in overrides else SourceText.read(script)
        )
        self.sources = {**overrides, real: self.text.text}
        self.request = request
        self.script = script
        self._progress = progress
        self._output = output
        self._cancel = cancel or threading.Event()
        self._starter = starter
        self.plain = any(map(_COMPILER_VARIABLE.search, self.sources.values()))
        """True if later runs must import PyTorch's compiler themselves, since the script sets variables for it."""
        self.interpreter = resolve_interpreter(script, request.interpreter)
        self.longest_step_s = request.longest_step_s
        """The limit for later runs: all runs of a script are cut alike, see ``cut_like``."""
        # Jupyter runs a notebook in its own folder.
        usual = script.parent if is_notebook(script) else Path.cwd()
        self.directory = (request.working_directory or usual).resolve()

    def find_knobs(self) -> KnobSearch:
        """The places in the source that may set the batch size."""
        overridden = {Path(path) for path in self.sources}

        def read(path: Path) -> SourceText | None:
            # Most candidate paths of an import do not exist.
            if not path.is_file() and path not in overridden:
                return None
            override = self.sources.get(str(path.resolve()))
            if override is not None:
                return SourceText.of(str(path), override)
            try:
                return SourceText.read(path)
            except SkylineError:
                return None

        try:
            return find(self.text, self.request.arguments, read)
        except SkylineError:
            # The script does not even parse: running it will say so in Python's own words.
            return KnobSearch((), ("the source could not be parsed",))
        except Exception as error:
            # Only the curve needs a literal; the run does not.
            return KnobSearch((), (f"the source could not be searched: {failure(error)}",))

    def launch(self, *, quiet: bool = False) -> ChildProcess:
        """A new process for a run; the output of a ``quiet`` one is not passed on."""
        return ChildProcess(
            self.interpreter,
            self.directory,
            device=self.request.device,
            timeout_s=self.request.timeout_s,
            limits=RunLimits(
                self.request.memory_limit_bytes,
                self.request.scratch_limit_bytes,
                self.request.process_limit,
            ),
            side_effects=self.request.side_effects,
            arguments=self.request.arguments,
            output=None if quiet else self._output,
            cancel=self._cancel,
            starter=self._starter,
            variables={
                **dict(self.request.variables),
                **(variables_of_first_rank(self.request.ranks) if self.request.ranks > 1 else {}),
            },
            plain=self.plain,
        )

    def start(self, child: ChildProcess, sized: SizedRun | None = None, **fields: object) -> None:
        """Run the script in the child, unchanged or at another batch size, until the end of its warm-up.

        ``fields`` override the values from the request.
        """
        request = self.request
        run = sized or SizedRun({}, request.arguments, request.loader_batch)
        started: dict[str, object] = {
            "script": str(self.script),
            "arguments": list(run.arguments),
            "sources": {**self.sources, **run.sources},
            "loader_batch": asdict(run.loader) if run.loader else None,
            "warmup": request.warmup,
            "longest_step_s": self.longest_step_s,
            "module": request.module,
            "evaluation": request.evaluation,
            "loop": request.loop,
            "ranks": request.ranks,
            "scratch": str(child.scratch),
            "side_effects": request.side_effects,
            "network": request.network,
            "device": request.device,
        }
        child.send("start", **{**started, **fields})

    def cut_like(self, ready: Ready) -> None:
        """Cut later runs in the same way as this one, regardless of the length of their iterations."""
        self.longest_step_s = None if ready.facts.cut_at is None else 0.0

    def await_ready(self, child: ChildProcess, *, quiet: bool = False) -> tuple[Ready, float]:
        """Wait for the end of the warm-up; returns the facts of the run, and its last warm-up iteration in ms."""
        step_ms = 0.0
        while True:
            event = child.receive("hello", "boundary", "ready")
            if event["event"] == "ready":
                child.keep_downloads()
                return msgspec.convert(event, Ready), step_ms
            if event["event"] == "hello" and self.request.device == "cuda" and not event["cuda"]:
                raise CaptureImpossible("PyTorch sees no CUDA device here", hint="Use --device auto or cpu.")
            if event["event"] == "boundary":
                step_ms = event["step_ms"] or step_ms
                if not quiet:
                    of = f" of {self.request.warmup}" if self.request.warmup else ""
                    self.say("warm up", f"iteration {event['count']}{of}", 0.2)

    def say(self, stage: str, message: str, fraction: float, known: Known | None = None) -> None:
        """Report the progress of the work."""
        if self._progress is not None:
            self._progress(Progress(stage, message, fraction, known))


def variables_of_first_rank(ranks: int) -> dict[str, str]:
    """Environment variables for rank 0 of ``ranks`` on this machine; other ranks differ only in their number."""
    world = str(ranks)
    variables = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "ROLE_RANK": "0",
        "GROUP_RANK": "0",
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    if "OMP_NUM_THREADS" not in os.environ:
        # The default of torchrun, so that the ranks do not compete for the cores.
        variables["OMP_NUM_THREADS"] = "1"
    return variables


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
