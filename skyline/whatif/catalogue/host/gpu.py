"""What if the recorded work ran on another GPU."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import HEAVY, WORK, TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named, gpus
from skyline.predict.wave_scaling import carried_factor, share_of_memory, sustained_rates
from skyline.whatif.base import Applicability, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.number_formats import NARROW, gpu, kernel_format

_OFFERED = ("T4", "L4", "A100-80GB", "H100", "H200", "B200")
_PRODUCTS = (320.0, 60.0, 2000.0)
"""Flop for each element that a product or convolution of unknown size moves: likely, least and most."""
_OTHERS = (1.0, 0.0, 20.0)
"""Flop for each element that all other kernels move."""
_ELEMENT_BYTES = 4.0
_EFFICIENCY = 1.4
"""The factor by which the share of its rate that another GPU reaches may be higher or lower. The range then
includes about nine in ten of the kernels in ``benchmarks/carried_kernels.py``."""
_LEAST_US = 2.0
"""No kernel takes less time than this, however fast the GPU."""
_BETWEEN_GPUS = ("nccl", "rccl")
_OVER_THE_BUS = ("htod", "dtoh", "host to device", "device to host")


@dataclass(frozen=True, slots=True)
class OtherGpu(UsualWhatIf):
    """Scales each measured kernel by the bandwidths and peaks of both GPUs; the host stays as it is."""

    name: str = "gpu"
    stage: Stage = Stage.WORKLOAD
    # These what-ifs would derive their gains from the recorded GPU, not the new one.
    excludes: tuple[str, ...] = ("amp", "tf32", "cudnn_benchmark", "channels_last")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return (
            f"the same work on the {gpu_named(value).full_name}" if value else "the same work on another GPU"
        )

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to traces of a GPU with a known specification."""
        if subject.recording is None:
            return Applicability.no(
                "a script can be predicted for another GPU: skyline profile --gpu NAME SCRIPT"
            )
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU; profile the script with --gpu NAME")
        here = gpu(subject)
        if here is None:
            return Applicability.no(
                "the trace does not name its GPU, or the GPU is not known: see skyline gpus"
            )
        known = {spec.name for spec in gpus()}
        offered = tuple(one for one in _OFFERED if one in known and one != here.name)
        default = "H100" if "H100" in offered else offered[0] if offered else here.name
        return Applicability(True, values=offered, default=default)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale kernels and copies; the host's work takes as long as before."""
        there, here = gpu_named(value), gpu(subject)
        if here is None or here.name == there.name:
            return scenario
        graph = scenario.graph
        kernels = select(graph, kind=TaskKind.KERNEL)
        copies = select(graph, kind=TaskKind.COPY)
        chosen = np.concatenate([kernels, copies])
        cases = (
            scale(
                graph,
                chosen,
                np.concatenate(
                    [
                        self._kernels(scenario, kernels, here, there, end),
                        self._copies(scenario, copies, here, there),
                    ]
                ),
            )
            for end in range(3)
        )
        unknown = "; the sizes of the products are not in a trace" if subject.recording is not None else ""
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                "the same kernels run, and each reaches the recorded share of the GPU's sustained rate"
                + unknown,
                "the host, its bus and the exchange between GPUs are as recorded",
                "the batch fits: see skyline profile --gpu for the memory",
            ),
        )

    def _kernels(self, scenario: Scenario, chosen: Indices, here: GpuSpec, there: GpuSpec, end: int) -> Times:
        """The ratio of each kernel's likely (0), least (1) or most (2) time to the recorded time."""
        tasks = scenario.graph.tasks
        heavy: Flags = np.isin(tasks.work[chosen], [WORK[one] for one in HEAVY])
        codes, back = np.unique(tasks.name[chosen], return_inverse=True)
        numbers: list[int] = codes.tolist()
        names = [tasks.names[code] for code in numbers]
        by_name = {
            is_heavy: np.array([factor_of(name, here, there, is_heavy, end) for name in names])
            for is_heavy in (True, False)
        }
        factors: Times = np.where(heavy, by_name[True][back], by_name[False][back])
        # A kernel of a few µs consists mostly of its start and end.
        lengths = np.maximum(scenario.graph.durations[chosen], 1e-9)
        return np.maximum(factors, np.minimum(1.0, _LEAST_US / lengths))

    def _copies(self, scenario: Scenario, chosen: Indices, here: GpuSpec, there: GpuSpec) -> Times:
        tasks = scenario.graph.tasks
        codes, back = np.unique(tasks.name[chosen], return_inverse=True)
        numbers: list[int] = codes.tolist()
        names = [tasks.names[code].lower() for code in numbers]
        inside = here.bandwidth_gb_s / there.bandwidth_gb_s
        over_bus = [any(mark in name for mark in _OVER_THE_BUS) for name in names]
        return np.array([1.0 if bus else inside for bus in over_bus], np.float64)[back]


def factor_of(name: str, here: GpuSpec, there: GpuSpec, heavy: bool, end: int) -> float:
    """The likely (0), least (1) or most (2) ratio of a kernel's time on another GPU, by its name and class."""
    if any(mark in name.lower() for mark in _BETWEEN_GPUS):
        return 1.0
    number_format = kernel_format(name)
    rates = [sustained_rates(spec, number_format) for spec in (here, there)]
    element = _ELEMENT_BYTES / 2 if number_format in NARROW else _ELEMENT_BYTES
    found = [
        carried_factor(rates[0], rates[1], share_of_memory(flop / element, rates[1].ridge))
        for flop in (_PRODUCTS if heavy else _OTHERS)
    ]
    return (found[0], min(found) / _EFFICIENCY, max(found) * _EFFICIENCY)[end]


WHATIF = OtherGpu()
