"""The modules of a recorded iteration as nested rows below the lane of their work, as in a flame graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase, Record

MOST_DEPTH = 4
"""Number of rows below a lane; deeper modules are shown in the last row."""


@dataclass(frozen=True, slots=True)
class ModuleSpan:
    """Neighbouring records of one module and one phase; ``first`` is the earliest of them."""

    label: str
    first: Record
    end_us: float


@dataclass(frozen=True, slots=True)
class ModuleLane:
    """The modules of one depth, in order of time."""

    name: str
    spans: tuple[ModuleSpan, ...]


def module_lanes(records: Sequence[Record], modules: Sequence[str]) -> Iterator[ModuleLane]:
    """The rows below the lane of these records; modules of one depth do not overlap.

    A row that repeats the row above it, as below a wrapper around the whole model, is left out.
    """
    # Between the operators of a backward pass the autograd engine itself works, which belongs to no module.
    in_order = sorted(
        (one for one in records if one.module >= 0 or one.phase is not Phase.BACKWARD),
        key=lambda one: one.start_us,
    )
    above: tuple[tuple[float, float], ...] = ()
    row = 0
    for depth in range(1, MOST_DEPTH + 1):
        spans = tuple(_spans(in_order, modules, depth))
        extent = tuple((span.first.start_us, span.end_us) for span in spans)
        if spans and extent != above:
            row += 1
            yield ModuleLane("modules" if row == 1 else f"modules {row}", spans)
        above = extent


def _spans(records: Sequence[Record], modules: Sequence[str], depth: int) -> Iterator[ModuleSpan]:
    def of(record: Record) -> tuple[Phase, tuple[str, ...]] | None:
        # In optimizer work the number belongs to a parameter group.
        if record.module < 0 or record.phase is Phase.OPTIMIZER:
            return None
        path = modules[record.module].split(".")
        return (record.phase, tuple(path[:depth])) if len(path) >= depth else None

    for key, run in groupby(records, key=of):
        if key is not None:
            same = list(run)
            yield ModuleSpan(_name(key[1]), same[0], same[-1].end_us)


def _name(path: Sequence[str]) -> str:
    """The attribute of the module; for an item of a list, with the list's attribute."""
    return ".".join(path[-2:]) if path[-1].isdigit() else path[-1]
