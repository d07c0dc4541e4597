"""What if the C library kept large blocks instead of returning them to the system."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf
from skyline.whatif.constant import WORTH_ASKING, Constant
from skyline.whatif.cost.large_blocks import getting_us, without_getting

VARIABLES = "MALLOC_TRIM_THRESHOLD_=1099511627776 MALLOC_MMAP_MAX_=0"
"""They make glibc keep freed memory (``mallopt(3)``)."""
_LIKELY = Constant.at(
    0.5,
    "as for other batch sizes (``BatchCurve``): between no block and all; memory of libraries is not recorded",
)


@dataclass(frozen=True, slots=True)
class KeepMemory(UsualWhatIf):
    """Removes the cost of allocating blocks above 32 MiB from the operators that request them."""

    name: str = "keep_memory"
    words: str = "let the C library keep large blocks of memory (environment variables)"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to CPUs under glibc if the recorded blocks cost at least a hundredth of the iteration."""
        profile = subject.script
        if not subject.ran_on_cpu:
            return Applicability.no("only memory of a CPU comes from the C library")
        if not profile.environment.platform.lower().startswith("linux"):
            return Applicability.no("only the C library of Linux is known to return large blocks")
        if profile.large_block_us_per_mb <= 0:
            return Applicability.no(
                "a new large block took no longer than a used one: the C library already keeps them"
            )
        cost_ms = sum(getting_us(profile, lambda _: 1.0).values()) / 1e3
        if not cost_ms:
            return Applicability.no("no block above 32 MiB was allocated in the recorded iteration")
        if cost_ms < WORTH_ASKING.value * subject.iteration_ms.value:
            return Applicability.no("allocating large blocks takes less than 1 % of the iteration")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Shorten the operators; the peak grows by the kept memory, at worst by the largest block."""
        profile = subject.script
        larger = scenario.batch_factor(subject)
        graph = scenario.graph
        likely, least = (
            without_getting(subject, graph, lambda _, part=part: larger * part)
            for part in (_LIKELY.value, 1.0)
        )
        largest = max((one.size_bytes for one in profile.trace.allocations), default=0)
        return scenario.between(
            subject,
            likely,
            least,
            graph,
            assumptions=(
                f"started with {VARIABLES}",
                "libraries already hold memory that some of the blocks can use",
            ),
            memory=lambda memory: memory.more("other", Interval(0.0, 0.0, larger * largest)),
        )


WHATIF = KeepMemory()
