"""Opens files without a script: saved profiles and traces of PyTorch's profiler."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from pathlib import Path

from skyline.analysis.estimate import answer
from skyline.lazy_dataclass import dataclass
from skyline.report.answers import answers_report
from skyline.report.schema import EstimateReport, ProfileReport, WhatIfReport
from skyline.report.traced import profile_of_trace
from skyline.trace import store
from skyline.trace.kineto.container import is_trace
from skyline.trace.kineto.reader import read
from skyline.whatif.question import Question
from skyline.whatif.recorded import recorded
from skyline.whatif.subject import Subject
from skyline_lsp.state import Prepared, prepare


@dataclass(frozen=True, slots=True, eq=False)
class OpenedTrace:
    """A trace with its report and what-ifs, computed in advance."""

    subject: Subject
    report: ProfileReport
    whatifs: WhatIfReport

    def estimate(self, question: Question) -> EstimateReport:
        """The estimate for the what-ifs of a question. Raises UsageError if one is invalid."""
        return answer(self.subject, question.all_choices)


@dataclass(slots=True)
class Traces:
    """The opened traces by path."""

    _traces: dict[str, OpenedTrace] = field(default_factory=dict[str, OpenedTrace])

    def at(self, path: str | None) -> OpenedTrace | None:
        """The trace opened from a path. None if there is none."""
        return self._traces.get(path or "")

    def keep(self, path: str, trace: OpenedTrace) -> None:
        """Store the trace of a path."""
        self._traces[path] = trace


def open_file(path: Path) -> Prepared | OpenedTrace:
    """Read and analyse a saved profile or a trace. Slow: call it on a worker thread.

    Raises:
        UsageError: The file is neither, or is damaged.
    """
    if not is_trace(path):
        return prepare(store.load(path))
    found = recorded(read(path))
    moment = datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    return OpenedTrace(found, profile_of_trace(found, str(path), moment), answers_report(found))
