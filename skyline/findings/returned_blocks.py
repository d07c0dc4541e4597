"""SKY404: the C library returns large blocks to the system, and requests them again in each iteration."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.lazy_dataclass import dataclass
from skyline.memory.growth import LARGE_BYTES
from skyline.units import format_bytes
from skyline.whatif.catalogue.host.keep_memory import VARIABLES
from skyline.whatif.subject import Subject

_SHARE = 0.05
"""Least predicted saving for a finding, as a share of the iteration."""


@dataclass(frozen=True, slots=True)
class ReturnedBlocks:
    """Blocks above 32 MiB cost at least a twentieth of the iteration, because the system clears each of them again."""

    code: str = "SKY404"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line that takes most of them; the cost is the saving of ``keep_memory``."""
        if not subject.ran_on_cpu or subject.script.large_block_us_per_mb <= 0:
            return None
        cost_ms = saved_ms(subject, "keep_memory")
        if cost_ms < _SHARE * step_ms(subject):
            return None
        trace = subject.script.trace
        large = [one for one in trace.allocations if one.size_bytes > LARGE_BYTES]
        by_line: dict[int, int] = {}
        for one in large:
            by_line[one.line] = by_line.get(one.line, 0) + one.size_bytes
        line = max(by_line, key=lambda row: by_line[row])
        place = trace.lines[line] if line >= 0 else subject.script.loop_line
        total = format_bytes(sum(by_line.values()))
        return Finding.at(
            self.code,
            f"{total} in {len(large)} blocks are requested from the system in each iteration",
            place,
            cost_ms,
            "keep_memory",
            (
                Evidence(
                    f"a large block costs {subject.script.large_block_us_per_mb:.0f} µs per MB to allocate"
                ),
                Evidence(f"start the script with {VARIABLES}"),
            ),
        )


RULE = ReturnedBlocks()
