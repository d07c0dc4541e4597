"""What if cuDNN measured its convolution algorithms and took the fastest."""

from __future__ import annotations

from skyline.graph.graph import scale
from skyline.graph.selection import Criteria, select
from skyline.graph.task import TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import (
    Applicability,
    Provenance,
    Scenario,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.number_formats import gpu

_CONVOLUTIONS = Criteria(work=WorkClass.CONVOLUTION, kind=TaskKind.KERNEL)
_FACTOR = Interval(0.9, 0.7, 1.0)
"""Ratio of a convolution's time with the best algorithm to that with the heuristic's choice. The choice
depends on the version of cuDNN, so there is a range and no model."""


@dataclass(frozen=True, slots=True)
class CudnnBenchmark(UsualWhatIf):
    """Scales the kernels of convolutions within a range."""

    name: str = "cudnn_benchmark"
    words: str = "let cuDNN try its convolution algorithms (cudnn.benchmark)"
    stage: Stage = Stage.LAYOUT

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to convolutions on an NVIDIA GPU if a heuristic chooses the algorithms."""
        if not subject.on_gpu:
            return Applicability.no("cuDNN computes on NVIDIA GPUs, and nothing ran on one")
        spec = gpu(subject)
        amd = subject.recording is not None and subject.recording.trace.vendor == "amd"
        if amd or (spec is not None and spec.vendor != "NVIDIA"):
            return Applicability.no("cuDNN computes on NVIDIA GPUs only")
        settings = None if subject.profile is None else subject.profile.settings
        if settings is not None and settings.cudnn_benchmark:
            return Applicability.no("cudnn.benchmark is on already")
        if settings is not None and settings.deterministic:
            return Applicability.no(
                "the script requires deterministic algorithms, and the fastest ones may not be deterministic"
            )
        if not len(select(subject.graph_of(self.grain), _CONVOLUTIONS)):
            return Applicability.no("no convolution ran on the GPU")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the convolutions; the time of cuDNN's trials falls into the first iterations."""
        chosen = select(scenario.graph, _CONVOLUTIONS)
        ends = _FACTOR.ends
        cases = (scale(scenario.graph, chosen, factor) for factor in ends)
        assumed = ["convolutions take up to 30 % less time: an assumed range, there is no model"]
        assumed.append("batches keep their size and shape: cuDNN tries its algorithms again for each new one")
        if subject.profile is None:
            assumed.append("cudnn.benchmark is assumed to be off: a trace does not show it")
        return scenario.between(subject, *cases, assumptions=tuple(assumed), provenance=Provenance.ASSUMED)


WHATIF = CudnnBenchmark()
