"""Live tensor memory at one moment of the recorded iteration, by line: ``skyline.memory/1``."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Block, live_blocks
from skyline.trace.profile import Profile

LIVE_MEMORY_SCHEMA = "skyline.memory/1"
_MOST_LINES = 60


@dataclass(frozen=True, slots=True)
class LiveLine:
    """Bytes in ``blocks`` blocks that a line allocated and that are still held, by phase of allocation.

    ``held_ms`` is the age of the oldest block. ``file`` is empty if no line allocated them.
    """

    file: str
    line: int
    source: str
    phase: str
    size_bytes: int
    blocks: int
    held_ms: float


@dataclass(frozen=True, slots=True)
class LiveMemoryReport:
    """``skyline.memory/1``: ``older_bytes`` are from before the iteration, the rest is in ``lines``, largest first.

    ``other_bytes`` are held by smaller lines that are not listed.
    """

    schema: str
    time_ms: float
    live_bytes: int
    older_bytes: int
    lines: tuple[LiveLine, ...]
    other_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class RecordedBlocks:
    """The blocks of a profile's recorded iteration, paired once for many moments."""

    profile: Profile
    blocks: tuple[Block, ...]
    scale: float
    """Milliseconds of the reported iteration per recorded µs."""

    @classmethod
    def of(cls, profile: Profile, iteration_ms: float) -> RecordedBlocks:
        """The blocks of a profile whose iteration takes ``iteration_ms``."""
        marks = profile.trace.iterations
        length_us = marks[-1].end_us - marks[-1].start_us if marks else 1.0
        return cls(profile, live_blocks(profile.trace.allocations), iteration_ms / max(1e-9, length_us))

    def at(self, time_ms: float, most: int = _MOST_LINES) -> LiveMemoryReport:
        """The live memory right after that moment of the iteration."""
        profile, trace = self.profile, self.profile.trace
        begin_us = trace.iterations[-1].start_us if trace.iterations else 0.0
        moment_us = begin_us + time_ms / self.scale + 1e-6
        past = [one for one in trace.allocations if one.time_us <= moment_us]
        level = (
            profile.memory.total_bytes
            - sum(one.size_bytes for one in trace.allocations)
            + sum(one.size_bytes for one in past)
        )
        sizes, counts = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
        oldest: dict[tuple[int, str], float] = {}
        for block in self.blocks:
            if block.alive_at(len(past)):
                key = block.line, block.phase.value
                sizes[key] += block.size_bytes
                counts[key] += 1
                oldest[key] = min(block.time_us, oldest.get(key, block.time_us))
        found = sizes.most_common()
        return LiveMemoryReport(
            LIVE_MEMORY_SCHEMA,
            time_ms,
            max(0, level),
            max(0, level - sum(sizes.values())),
            tuple(
                self._line(key, size, counts[key], (moment_us - oldest[key]) * self.scale)
                for key, size in found[:most]
            ),
            sum(size for _, size in found[most:]),
        )

    def _line(self, key: tuple[int, str], size: int, blocks: int, held_ms: float) -> LiveLine:
        index, phase = key
        if index < 0:
            return LiveLine("", 0, "", phase, size, blocks, held_ms)
        line = self.profile.trace.lines[index]
        return LiveLine(
            line.file, line.line, self._source(line.file, line.line), phase, size, blocks, held_ms
        )

    def _source(self, file: str, line: int) -> str:
        for source in self.profile.sources:
            if PurePath(source.path) == PurePath(file):
                text = source.text.splitlines()
                return text[line - 1].strip() if 0 < line <= len(text) else ""
        return ""
