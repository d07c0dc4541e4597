"""A session that answers from a small model of a script, for tests of the screen alone."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import pytest

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.memory.timeline import MemoryPoint
from skyline.report.device_rows import DevicesReport
from skyline.report.protocol import (
    ApplyResult,
    BestParams,
    DevicesParams,
    PreviewResult,
    ProfileChanged,
    QuestionParams,
    Refusal,
    RemoveParams,
    VerifyParams,
)
from skyline.report.schema import (
    PROFILE_SCHEMA,
    VERIFY_SCHEMA,
    WHATIF_SCHEMA,
    BaselineReport,
    BatchSizeReport,
    BestReport,
    CriticalPathReport,
    CurvePointReport,
    EstimateReport,
    KnobReport,
    LineReport,
    LoopReport,
    MeasuredReport,
    MemoryBreakdown,
    MemoryReport,
    ProfileReport,
    TrackRecordReport,
    VerifyReport,
    WhatIfReport,
)
from skyline.trace.facts import Device
from skyline.trace.record import PhaseTimes
from skyline.whatif.question import speedup_range
from skyline_tui import messages
from skyline_tui.app import SkylineApp
from skyline_tui.workspace_edit import RewrittenFile


def _beside(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"tui_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"tui_{name}"] = module
    spec.loader.exec_module(module)
    return module


_PICTURES, _PLANS, _RUNS = _beside("pictures"), _beside("plans"), _beside("runs")
watched_run, trials = _RUNS.watched_run, _RUNS.trials
patient, brief = _beside("patience").patient, _beside("brevity").brief

SCRIPT = """\
import torch
from model import Model

model = Model()
optimizer = torch.optim.Adam(model.parameters())
loader = torch.utils.data.DataLoader(data, batch_size=32)

for x, y in loader:
    loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

SIZES = (8, 16, 32, 64, 96, 128, 192)


def around(value: float, share: float = 0.02) -> Interval:
    return Interval(value, value * (1 - share), value * (1 + share))


def iteration_ms(batch_size: int) -> float:
    return 30.0 + 4.75 * batch_size


def peak_bytes(batch_size: int) -> float:
    return 0.4e9 + 47e6 * batch_size


def point(batch_size: int) -> CurvePointReport:
    time = around(iteration_ms(batch_size))
    return CurvePointReport(
        batch_size,
        time,
        time.inverse(1000.0 * batch_size),
        Interval.exact(peak_bytes(batch_size)),
        measured=batch_size in (16, 32, 96),
        extrapolated=batch_size < 16 or batch_size > 96,
    )


def make_profile(script: Path, batch_size: int = 32, number: int = 1) -> ProfileReport:
    here = point(batch_size)
    total = here.iteration_ms.value
    phases = PhaseTimes(
        data=total * 0.12,
        forward=total * 0.31,
        backward=total * 0.49,
        optimizer=total * 0.06,
        other=total * 0.02,
    )
    file, model = str(script), str(script.parent / "model.py")
    rows = (
        (model, 88, "attention", "att = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))", 0.225),
        (model, 90, "attention", "att = softmax(att, dim=-1)", 0.129),
        (file, 8, "<module>", "for x, y in loader:", 0.12),
        (model, 56, "forward", "x = self.mlp(x)", 0.1),
        (file, 12, "<module>", "optimizer.step()", 0.06),
    )
    lines = [_line(*row[:4], share=row[4], total=total) for row in rows]
    rest = 1.0 - sum(row[4] for row in rows)
    lines.append(_line("", 0, "", "", share=rest, total=total))
    line = next(
        number for number, text in enumerate(script.read_text().splitlines(), 1) if "batch_size" in text
    )
    knob = KnobReport(file, line, 58, 60, f"batch_size={batch_size}", "loader")
    return ProfileReport(
        schema=PROFILE_SCHEMA,
        id=f"profile-{number}",
        created="2026-11-21T14:02:00+00:00",
        script=file,
        arguments=(),
        mode="measured",
        device=Device("cpu", "cpu"),
        intraop_threads=2,
        steps=(total,) * 8,
        iteration_ms=here.iteration_ms,
        throughput=here.throughput,
        batch_size=BatchSizeReport(batch_size, knob, None),
        memory=MemoryReport(
            here.peak_bytes,
            24_000_000_000,
            MemoryBreakdown(200_000_000, 200_000_000, 0, 0, 0),
            timeline=tuple(
                MemoryPoint(total * step / 10, level, 200_000_000, 200_000_000, 0, level - 400_000_000, 0)
                for step, level in enumerate(
                    (int(4e8), int(9e8), int(here.peak_bytes.value), int(6e8), int(4e8))
                )
            ),
        ),
        phases=phases,
        lines=tuple(lines),
        unattributed_share=rest,
        critical_path=CriticalPathReport(1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        replay_error=0.004,
        overhead=1.1,
        findings=(),
        curve=tuple(point(size) for size in sorted({*SIZES, batch_size})),
        loop=LoopReport(file, 8),
        notes=(),
    )


def _line(file: str, line: int, function: str, source: str, *, share: float, total: float) -> LineReport:
    time = share * total
    return LineReport(
        file,
        line,
        function,
        "",
        source,
        1.0,
        0.0,
        time * 0.4,
        time * 0.6,
        0.0,
        0.0,
        time,
        share,
        int(share * 1e9),
    )


WHATIFS = (
    ("fused_optimizer", "", 0.972, 1.0, "exact", None),
    ("checkpointing", "", 1.12, 0.45, "exact", None),
    ("num_workers", "2", 0.895, 1.0, "exact", None),
    ("num_workers", "4", 0.893, 1.0, "exact", None),
    ("amp", "bf16", 1.33, 0.8, "numerics", None),
    ("compile", "", 1.0, 1.0, "numerics", "needs a C++ compiler, and none was found on this machine"),
)

VALUES = {"checkpointing": ("", "all", "fit")}
"""What-ifs with more than one value, in addition to the rows that are one value each."""


@dataclass
class FakeSession(_RUNS.FakeRuns, _PLANS.FakePlans, _PICTURES.FakePictures):
    """Answers like the server; the file on disk is really rewritten, so that reverting can be seen."""

    batch_size: int = 32
    questions: list[QuestionParams] = field(default_factory=list)
    searches: list[BestParams] = field(default_factory=list)
    applied: list[QuestionParams] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    refuse: str = ""
    alter: Callable[[ProfileReport], ProfileReport] = lambda profile: profile
    stopped: bool = False
    verified: list[VerifyParams] = field(default_factory=list)
    compared: list[DevicesParams] = field(default_factory=list)
    devices_page: DevicesReport | None = None
    no_verdict: str = ""
    endless: bool = False
    """True if a measurement goes on until it is cancelled."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    discarded: str = ""
    """Why a measurement does not count."""
    slow: bool = False
    """True if the measurement after an apply takes until the test asks for it."""
    measuring: bool = False
    before: list[bytes] = field(default_factory=list)

    runs: bool = True

    @property
    def uri(self) -> str:
        return self.script.as_uri()

    async def start(self) -> None: ...

    async def stop(self) -> None:
        self.stopped = True

    async def profile(self) -> None:
        self.profiles += 1
        self.measuring = False
        self.post(messages.Progressed("Profiling train.py", "measure: 2 of 8", 0.38))
        self.post(messages.ProgressEnded(""))
        self.say(profileId=f"profile-{self.profiles}")

    async def use_later(self) -> None:
        """Make the profile that was put aside the newest from now on."""
        self.alter = lambda profile: profile
        self.say(profileId="later")

    def profile_at(self, batch_size: int) -> ProfileReport:
        return make_profile(self.script, batch_size)

    def say(self, **changes: object) -> None:
        fields = {"uri": self.uri, "profileId": None, "headline": "", "stale": False}
        self.post(messages.ProfileMoved(ProfileChanged(**{**fields, **changes})))

    async def cancel(self) -> None:
        self.cancelled.set()
        self.post(messages.ProgressEnded("cancelled"))

    async def latest(self) -> ProfileReport | None:
        return (
            self.alter(make_profile(self.script, self.batch_size, self.profiles)) if self.profiles else None
        )

    def estimate(self, question: QuestionParams) -> EstimateReport:
        size = question.batchSize or self.batch_size
        time, memory = iteration_ms(size), peak_bytes(size)
        for name, value, time_factor, memory_factor, _, _ in WHATIFS:
            if (f"{name}={value}" if value else name) in question.whatifs:
                time, memory = time * time_factor, memory * memory_factor
        name, _, value = (question.whatifs[0] if question.whatifs else "batch_size").partition("=")
        return self._report(name, value, size, time, memory, "exact", None)

    def _report(
        self, name: str, value: str, size: int, time: float, memory: float, semantics: str, reason: str | None
    ) -> EstimateReport:
        spread, now = around(time, 0.03), iteration_ms(self.batch_size)
        change = Interval(time - now, spread.low - now, spread.high - now)
        speedup = size / self.batch_size * now / time
        return EstimateReport(
            name=name,
            value=value,
            title=f"Use {name}",
            iteration_ms=spread,
            change_ms=change,
            throughput=spread.inverse(1000.0 * size),
            peak_bytes=Interval.exact(memory),
            speedup=speedup,
            speedup_range=speedup_range(speedup, now, change),
            applicable=reason is None,
            reason=reason,
            semantics=semantics,
            provenance="modelled",
            assumptions=("the loader keeps up",),
            rewrite="available",
            rewrite_reason=None,
            batch_size=size,
            extrapolated=size > 96,
            one_off_s=Interval(38.0, 20.0, 60.0) if name == "checkpointing" else None,
            break_even_iterations=2300 if name == "checkpointing" else None,
            values=VALUES.get(name, ()) if reason is None else (),
        )

    async def whatifs(self) -> WhatIfReport | None:
        time, memory = iteration_ms(self.batch_size), peak_bytes(self.batch_size)
        now = point(self.batch_size)
        return WhatIfReport(
            WHATIF_SCHEMA,
            BaselineReport(now.iteration_ms, now.throughput, now.peak_bytes, 0.004),
            tuple(
                self._report(name, value, self.batch_size, time * faster, memory * smaller, semantics, reason)
                for name, value, faster, smaller, semantics, reason in WHATIFS
            ),
            None,
            tuple(
                TrackRecordReport(asked.whatifs[0], 1, 1, 0.05, 0.05, 1, 1, 0)
                for asked in self.verified[-1:]
                if not self.discarded
            ),
            verdict=_PICTURES.VERDICT,
        )

    async def simulate(self, question: QuestionParams) -> EstimateReport:
        if question.curve:
            answers = {size: self.estimate(replace(question, batchSize=size)) for size in SIZES}
            points = tuple(
                replace(
                    point(size),
                    iteration_ms=found.iteration_ms,
                    throughput=found.throughput,
                    peak_bytes=found.peak_bytes,
                    measured=False,
                )
                for size, found in answers.items()
                if found.throughput is not None
            )
            return replace(answers[SIZES[0]], curve=points)
        self.questions.append(question)
        if self.refuse:
            raise UsageError(self.refuse)
        return self.estimate(question)

    async def best(self, limits: BestParams) -> BestReport:
        self.searches.append(limits)
        fastest = QuestionParams(self.uri, 48, ("num_workers=4",))
        parts = (
            self._report("batch_size", "48", 48, iteration_ms(48), peak_bytes(48), "convergence", None),
            self._report(
                "num_workers", "4", self.batch_size, iteration_ms(self.batch_size) * 0.7, 1e9, "exact", None
            ),
        )
        names, limit = ("batch_size=48", "num_workers=4"), limits.maxMemoryBytes or 0
        return BestReport(names, self.estimate(fastest), parts, 17, limit, limits.semantics)

    async def verify(self, asked: VerifyParams) -> VerifyReport:
        self.verified.append(asked)
        self.post(messages.Progressed("Verifying train.py", "measure: round 2 of 8", 0.25))
        if self.endless:
            await self.cancelled.wait()
            raise UsageError("The verification was cancelled")
        if self.no_verdict:
            raise UsageError(self.no_verdict)
        predicted = self.estimate(QuestionParams(asked.uri, asked.batchSize, asked.whatifs))
        now, time = point(self.batch_size), predicted.iteration_ms
        measured = MeasuredReport(
            iteration_ms=around(time.value / 1.05, 0.01),
            ratio=around(time.value / 1.05 / now.iteration_ms.value, 0.01),
            speedup=around(1.0, 0.01),
            throughput=around(190.0, 0.01),
            null=Interval(1.004, 0.985, 1.02),
            rounds=8,
            baseline_ms=185.0,
            others_cores=0.25,
            baseline_peak_bytes=1_900_000_000,
            peak_bytes=1_800_000_000,
        )
        baseline = BaselineReport(now.iteration_ms, now.throughput, now.peak_bytes, 0.004)
        self.post(messages.ProgressEnded("measured 0.926 of the unchanged time"))
        return VerifyReport(
            schema=VERIFY_SCHEMA,
            script=str(self.script),
            whatifs=asked.whatifs,
            baseline=baseline,
            predicted=predicted,
            measured=measured,
            error=0.05,
            held=False,
            null_ratio=1.004,
            valid=not self.discarded,
            reason=self.discarded or None,
            hint="Measure when it is quiet." if self.discarded else None,
            entry="3f2a",
        )

    async def devices(self, asked: DevicesParams) -> DevicesReport:
        self.compared.append(asked)
        self.post(messages.Progressed("Comparing GPUs for train.py", "curve: tracing at batch size 64", 0.4))
        if self.endless:
            await self.cancelled.wait()
            raise UsageError("The comparison was cancelled")
        self.post(messages.ProgressEnded("predicted on 2 GPUs"))
        assert self.devices_page is not None
        return self.devices_page

    async def preview(self, question: QuestionParams) -> PreviewResult:
        change = f"-batch_size={self.batch_size}\n+batch_size={question.batchSize}\n"
        diff = f"--- train.py\n+++ train.py\n@@ -6 +6 @@\n{change}"
        return PreviewResult((), diff, (Refusal("amp=bf16", "there is no model.forward to wrap"),))

    async def apply(self, question: QuestionParams) -> ApplyResult:
        if self.refuse:
            return ApplyResult(False, self.refuse)
        if self.measuring:
            return ApplyResult(False, "The file changed. Profile it again.")
        self.applied.append(question)
        self.before.append(self.script.read_bytes())
        if question.batchSize:
            old, new = f"batch_size={self.batch_size}".encode(), f"batch_size={question.batchSize}".encode()
            self.script.write_bytes(self.script.read_bytes().replace(old, new))
            self.batch_size = question.batchSize
        self.post(messages.FilesWritten((RewrittenFile(self.script, (6,), "train.py:6", "-old\n+new"),)))
        if self.slow:
            self.measuring = True
            self.say(profileId=f"profile-{self.profiles}", stale=True)
        else:
            await self.profile()
        return ApplyResult(True)

    async def remove(self, asked: RemoveParams) -> ApplyResult:
        self.removed.append(asked.whatif)
        return ApplyResult(not self.refuse, self.refuse or None)

    async def revert(self) -> ApplyResult:
        if not self.before:
            return ApplyResult(False, "nothing was applied in this session")
        self.script.write_bytes(self.before.pop())
        self.batch_size = 32
        if self.slow:
            self.measuring = False
            self.say(profileId=f"profile-{self.profiles}")
        else:
            await self.profile()
        return ApplyResult(True)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    (tmp_path / "model.py").write_text("import math\n" * 120)
    return path


@pytest.fixture
def profile_of_script(script: Path) -> ProfileReport:
    return make_profile(script)


@dataclass
class OpenedApp:
    """The app under test and the session behind it."""

    app: SkylineApp
    session: FakeSession

    @property
    def text(self) -> str:
        """The text on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    @property
    def toasts(self) -> str:
        """The texts of all notifications."""
        return "\n".join(notice.message for notice in self.app._notifications)


@pytest.fixture
def opened_app(script: Path) -> Callable[..., OpenedApp]:
    def make(*, live: bool = True, **changes: object) -> OpenedApp:
        made: list[FakeSession] = []

        def connect(post: messages.Post) -> FakeSession:
            made.append(FakeSession(script, post, **changes))
            return made[-1]

        app = SkylineApp(script, connect, live=live)
        return OpenedApp(app, made[0])

    return make
