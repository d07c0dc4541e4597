"""SKY403: each iteration allocates memory that it does not free."""

from __future__ import annotations

from itertools import pairwise

from skyline.findings.base import Evidence, Finding
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import live_blocks
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine, Phase
from skyline.units import format_bytes
from skyline.whatif.subject import Subject

_LEAST_ITERATIONS = 8
_STEADILY = 0.8
"""Least share of iterations with growth: a cache grows only occasionally."""
_LEAST_BYTES = 100_000
_SHARE = 0.001
"""Growth per iteration relative to the peak: doubles it in a thousand iterations. SageMaker Debugger's
GPUMemoryIncrease requires 5 percentage points of utilisation over a window of a thousand samples."""
_LINES = 3


@dataclass(frozen=True, slots=True)
class GrowingMemory:
    """The memory in use at the end of the iterations grew in nearly all of them, by a significant amount."""

    code: str = "SKY403"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line that keeps most memory; costs no time until memory is full."""
        profile = subject.script
        levels = profile.times.memory_bytes
        if len(levels) <= _LEAST_ITERATIONS:
            return None
        changes = [after - before for before, after in pairwise(levels)]
        each = median([float(change) for change in changes])
        steadily = sum(change > 0 for change in changes) / len(changes)
        enough = max(_LEAST_BYTES, _SHARE * subject.peak.total)
        if each < enough or steadily < _STEADILY:
            return None
        keepers = _keepers(profile)
        return Finding.at(
            self.code,
            f"each iteration keeps {format_bytes(each)} more than the one before",
            keepers[0][0] if keepers else profile.loop_line,
            0.0,
            None,
            (
                Evidence(
                    f"memory in use grew in {sum(change > 0 for change in changes)} of {len(changes)} measured "
                    f"iterations, from {format_bytes(levels[0])} to {format_bytes(levels[-1])}"
                ),
                *(
                    Evidence.at(
                        f"{format_bytes(size)} allocated here in the recorded iteration outlive it", line
                    )
                    for line, size in keepers[:_LINES]
                ),
            ),
        )


def _keepers(profile: Profile) -> list[tuple[CodeLine, int]]:
    """The lines of blocks that outlive the recorded iteration, without lines of backward passes and updates."""
    sizes: dict[int, int] = {}
    for block in live_blocks(profile.trace.allocations):
        if block.freed is None and block.phase in (Phase.FORWARD, Phase.OTHER) and block.line >= 0:
            sizes[block.line] = sizes.get(block.line, 0) + block.size_bytes
    found = [(profile.trace.lines[line], size) for line, size in sizes.items()]
    return sorted(found, key=lambda pair: -pair[1])


RULE = GrowingMemory()
