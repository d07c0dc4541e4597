"""One model of the ground truth: its predictions before anything runs, and its measurements."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kept_rows import KeptRows, batches
from whatifs import Row, WhatIfScript, measured, questions, said

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.predicted_times import timed
from skyline.predict.registry import predictor_for
from skyline.predict.shape_tracer import ScriptTracer
from skyline.trace.profile import Profile
from skyline.verification.change import Change, change
from skyline.whatif.question import Choice, Question

FOLDER = Path(__file__).with_name("ground_truth_models")
KINETO = Path(__file__).with_name("kineto_steps.py")
_FACTORS = (0.25, 0.5, 2.0, 4.0, 8.0)
_AT_ONCE = 3
_MOST_TRACE_BYTES = 2 << 20
_TRACE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Unrun:
    """A model's iteration time as predicted by shape tracing without a run, and as measured, in ms."""

    model: str
    predictor: str
    told_ms: float
    low_ms: float
    high_ms: float
    took_ms: float

    @property
    def error(self) -> float:
        """Predicted over measured time, minus one."""
        return self.told_ms / self.took_ms - 1


class Model:
    """A model script that is measured piece by piece. Finished pieces are stored in ``out``."""

    def __init__(self, script: Path, out: Path, *, small: bool, interpreter: str | None) -> None:
        self.name = script.stem
        text = shlex.join([str(script), *(["--small"] if small else [])])
        self._subject = WhatIfScript.parse(text, interpreter)
        self._out = out
        self._kept = KeptRows(out, f"{self.name}{'-small' if small else ''}", Row)
        self._analysis: Analysis | None = None

    @property
    def profile(self) -> Profile:
        """The profile that all predictions start from. It is made once."""
        request = replace(self._subject.request(self._subject.script.parent), batch_points=2)
        return self._kept.profile(lambda: capture(request, progress=lambda _: None))

    @property
    def analysis(self) -> Analysis:
        """The analysis of the profile."""
        if self._analysis is None:
            self._analysis = analyse(self.profile)
        return self._analysis

    def pieces(self) -> Iterator[Sequence[tuple[Choice, ...]]]:
        """The changes that are not measured yet, in groups that take turns. Other batch sizes come first."""
        left = [one for one in self._asked() if not self._kept.measured(_words(one))]
        yield from batches(left, _AT_ONCE)

    def measure(self, piece: Sequence[tuple[Choice, ...]], rounds: int) -> None:
        """Run these changes in turns with the unchanged script."""
        changes = [(said(self.analysis, choices), self._change(choices)) for choices in piece]
        rows = measured(self._subject, self._subject.script.parent, changes, rounds)
        found = {" ".join(row.said.names): row for row in rows}
        self._kept.put({_words(one): found.get(_words(one)) for one in piece})

    def rows(self) -> list[Row]:
        """The rows that were measured so far."""
        return self._kept.among([_words(one) for one in self._asked()])

    def unrun(self, device: GpuSpec) -> Unrun:
        """The iteration time predicted only from shapes, for the device on which it was measured."""
        request = replace(self._subject.request(self._subject.script.parent), gpu=device.name, batch_points=0)
        traced = ScriptTracer(request, device, lambda _: None).trace()
        predictor = predictor_for(device)
        prediction = timed(traced, device, predictor).prediction
        assert prediction is not None
        told = prediction.iteration_ms
        took = self.analysis.baseline.iteration_ms.value
        return Unrun(self.name, predictor.name, told.value, told.low, told.high, took)

    def record(self) -> list[Path]:
        """Small traces of PyTorch's profiler, of the unchanged script and of each measured change."""
        folder = self._out / "traces"
        folder.mkdir(parents=True, exist_ok=True)
        made: list[Path] = []
        wanted: list[tuple[str, Change | None]] = [("baseline", None)]
        wanted += [
            (_words(one), self._change(one)) for one in self._asked() if self._kept.measured(_words(one))
        ]
        for words, one in wanted:
            stem = folder / re.sub(r"[^\w.=-]+", "+", f"{self.name} {words}")
            trace = stem.with_name(f"{stem.name}.json.gz")
            if not trace.exists():
                self._record(stem, one)
            if trace.exists() and trace.stat().st_size > _MOST_TRACE_BYTES:
                trace.write_bytes(b"")
            made.append(trace)
        return made

    def _record(self, stem: Path, one: Change | None) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, self._subject.script.name)
            texts = {os.path.realpath(path): text for path, text in one.texts} if one else {}
            plain = self._subject.script.read_text(encoding="utf-8")
            script.write_text(texts.get(os.path.realpath(self._subject.script), plain), encoding="utf-8")
            arguments = one.arguments if one else self._subject.arguments
            interpreter = self._subject.interpreter or sys.executable
            command = [interpreter, str(KINETO), str(stem.resolve()), str(script), *arguments]
            try:
                subprocess.run(command, check=False, capture_output=True, timeout=_TRACE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                print(f"{self.name}: no trace of {stem.name} in time", file=sys.stderr)

    def _asked(self) -> list[tuple[Choice, ...]]:
        base = self.analysis.baseline.curve.base or 0
        sizes = [round(base * factor) for factor in _FACTORS]
        curve = [(Choice("batch_size", str(size)),) for size in sizes if size >= 1 and self._fits(size)]
        others = [one for one in questions(self.analysis) if one not in curve]
        exact = self._exact([one for (one,) in (each for each in others if len(each) == 1)])
        return [*curve, *others, *([exact] if len(exact) > 1 else [])]

    def _fits(self, size: int) -> bool:
        answer = estimate(self.analysis, Question(choices=(Choice("batch_size", str(size)),)))
        room = self.profile.environment.memory_capacity_bytes
        return answer.applicable and (not room or answer.peak_bytes.value < 0.9 * room)

    def _exact(self, singles: Sequence[Choice]) -> tuple[Choice, ...]:
        """All changes that keep the results and help on their own, together."""
        chosen: tuple[Choice, ...] = ()
        for one in singles:
            alone = estimate(self.analysis, Question(choices=(one,)))
            if (
                alone.semantics != "exact"
                or alone.change_ms.value >= 0
                or one.name in {each.name for each in chosen}
            ):
                continue
            try:
                if estimate(self.analysis, Question(choices=(*chosen, one))).applicable:
                    self._change((*chosen, one))
                    chosen = (*chosen, one)
            except SkylineError:
                continue
        return chosen

    def _change(self, choices: tuple[Choice, ...]) -> Change:
        return change(self.analysis, Question(choices=choices), self.profile.arguments)


def _words(choices: Sequence[Choice]) -> str:
    return " ".join(map(str, choices))
