"""What every run of a script has in common: the text that is run, how it is started, and how far it is."""

from __future__ import annotations

import threading
from dataclasses import asdict
from pathlib import Path

import msgspec

from skyline.attempt import failure
from skyline.capture.batch_way import SizedRun
from skyline.capture.child_process import ChildProcess
from skyline.capture.events import Ready
from skyline.capture.guard import RunLimits
from skyline.capture.interpreter import resolve_interpreter
from skyline.capture.process import Starter
from skyline.capture.ranks import variables_of_first_rank
from skyline.capture.request import CaptureRequest, Known, OutputCallback, Progress, ProgressCallback
from skyline.errors import CaptureImpossible, SkylineError
from skyline.source.batch_size import find
from skyline.source.knob import KnobSearch
from skyline.source.text import SourceText


class ScriptRuns:
    """Starts runs of one script, all of them with the text that it had when this was made."""

    def __init__(
        self,
        request: CaptureRequest,
        progress: ProgressCallback,
        output: OutputCallback | None,
        cancel: threading.Event,
        starter: Starter,
        notes: list[str] | None = None,
    ) -> None:
        script = request.script.absolute()
        overrides = {str(Path(path).resolve()): text for path, text in request.source_overrides}
        real = str(script.resolve())
        # The text is read once: a file that is edited meanwhile does not mix into this profile.
        self._text = (
            SourceText.of(str(script), overrides[real]) if real in overrides else SourceText.read(script)
        )
        self._sources = {**overrides, real: self._text.text}
        self._request = request
        self._script = script
        self._progress = progress
        self._output = output
        self._cancel = cancel
        self._starter = starter
        self._notes = notes or []
        self._interpreter = resolve_interpreter(script, request.interpreter)
        self._directory = (request.working_directory or Path.cwd()).resolve()

    def _find_knobs(self) -> KnobSearch:
        overridden = {Path(path) for path in self._sources}

        def read(path: Path) -> SourceText | None:
            # Most places where an import might lead have no file.
            if not path.is_file() and path not in overridden:
                return None
            override = self._sources.get(str(path.resolve()))
            if override is not None:
                return SourceText.of(str(path), override)
            try:
                return SourceText.read(path)
            except SkylineError:
                return None

        try:
            return find(self._text, self._request.arguments, read)
        except SkylineError:
            # The script does not even parse: running it will say so in Python's own words.
            return KnobSearch((), ("the source could not be parsed",))
        except Exception as error:
            # The run needs no literal, only the curve does.
            return KnobSearch((), (f"the source could not be searched: {failure(error)}",))

    def _launch(self, *, quiet: bool = False) -> ChildProcess:
        return ChildProcess(
            self._interpreter,
            self._directory,
            device=self._request.device,
            timeout_s=self._request.timeout_s,
            limits=RunLimits(
                self._request.memory_limit_bytes,
                self._request.scratch_limit_bytes,
                self._request.process_limit,
            ),
            side_effects=self._request.side_effects,
            arguments=self._request.arguments,
            output=None if quiet else self._output,
            cancel=self._cancel,
            starter=self._starter,
            variables={
                **dict(self._request.variables),
                **(variables_of_first_rank(self._request.ranks) if self._request.ranks > 1 else {}),
            },
        )

    def _start(self, child: ChildProcess, sized: SizedRun | None = None, **mode: object) -> None:
        """Run the script in the child, unchanged or at another batch size, until the end of its warm-up."""
        run = sized or SizedRun({}, self._request.arguments, self._request.loader_batch)
        child.send(
            "start",
            script=str(self._script),
            arguments=list(run.arguments),
            sources={**self._sources, **run.sources},
            loader_batch=asdict(run.loader) if run.loader else None,
            warmup=self._request.warmup,
            module=self._request.module,
            evaluation=self._request.evaluation,
            ranks=self._request.ranks,
            scratch=str(child.scratch),
            side_effects=self._request.side_effects,
            network=self._request.network,
            device=self._request.device,
            **mode,
        )

    def _await_ready(self, child: ChildProcess, *, quiet: bool = False) -> tuple[Ready, float]:
        """Wait for the end of warm-up; what the run is then, and its last warm-up step in ms."""
        step_ms = 0.0
        while True:
            event = child.receive("hello", "boundary", "ready")
            if event["event"] == "ready":
                child.keep_downloads()
                return msgspec.convert(event, Ready), step_ms
            if event["event"] == "hello" and self._request.device == "cuda" and not event["cuda"]:
                raise CaptureImpossible("PyTorch sees no CUDA device here", hint="Use --device auto or cpu.")
            if event["event"] == "boundary":
                step_ms = event["step_ms"] or step_ms
                if not quiet:
                    of = f" of {self._request.warmup}" if self._request.warmup else ""
                    self._say("warm up", f"iteration {event['count']}{of}", 0.2)

    def _say(self, stage: str, message: str, fraction: float, known: Known | None = None) -> None:
        self._progress(Progress(stage, message, fraction, known))
