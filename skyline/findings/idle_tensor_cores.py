"""SKY302: matrix products run in plain float32 on a GPU with faster tensor cores."""

from __future__ import annotations

import re

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import best_cure, step_ms
from skyline.findings.lines import dearest_lines
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Grain
from skyline.whatif.catalogue.numerics.casts import heavy_tasks
from skyline.whatif.number_formats import FLOAT32, formats
from skyline.whatif.subject import Subject

_SHARE = 0.10
_LINES = 4
_SURELY_PLAIN = re.compile(r"sgemm|scudnn|simt|ffma", re.IGNORECASE)
"""Parts of kernel names that imply float32 without tensor cores; other names are not conclusive."""


@dataclass(frozen=True, slots=True)
class IdleTensorCores:
    """More than a tenth of the iteration is float32 products without tensor cores.

    The TensorBoard plug-in had this rule for GPUs of compute capability 7.0 or higher, for runs in which no kernel used
    the tensor cores (``torch_tb_profiler``, ``data.py``).
    """

    code: str = "SKY302"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the slowest such line; the cost is the larger saving of TF32 and mixed precision."""
        if not subject.on_gpu:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        plain = _plain(subject, graph)
        plain_ms = float(graph.durations[plain].sum()) / 1e3 / max(1, subject.steps)
        total_ms = step_ms(subject)
        if plain_ms <= _SHARE * total_ms:
            return None
        # TF32 is a one-line change without side effects; mixed precision only if TF32 is unavailable.
        cure, cost_ms = best_cure(subject, ("tf32",))
        if cure is None:
            cure, cost_ms = best_cure(subject, ("amp",))
        if cure is None:
            return None
        lines = dearest_lines(graph, plain, graph.durations[plain])
        return Finding.at(
            self.code,
            f"matrix products in float32 without TF32 keep the GPU busy for {plain_ms / total_ms:.0%} of "
            "the iteration: its tensor "
            "cores are idle",
            lines[0][0] if lines else None,
            cost_ms,
            cure,
            tuple(
                Evidence.at(f"{cost_us / 1e3 / max(1, subject.steps):.2g} ms of products in float32", line)
                for line, cost_us in lines[:_LINES]
            ),
        )


def _plain(subject: Subject, graph: Graph) -> Indices:
    """Products in plain float32; in a trace, only those whose kernels certainly are."""
    heavy = heavy_tasks(subject, graph)
    plain = np.array([one == FLOAT32 for one in formats(subject, graph, heavy)], np.bool_)
    if subject.profile is None:
        plain &= graph.tasks.named(_SURELY_PLAIN.search)[heavy]
    return heavy[plain]


RULE = IdleTensorCores()
