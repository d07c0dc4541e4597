"""The rows of the what-ifs: applicable ones in columns, then the others with their reasons."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping

from textual.content import Content

from skyline.report.place import middle
from skyline.report.schema import BaselineReport, EstimateReport
from skyline.report.speedup import direction, one_off_words
from skyline_tui.figures import DIRECTION_STYLES, MUTED, fitting, saved_memory, saved_time, time_scale_of

HEAD = "head"
"""The row of column titles."""
REST = "rest"
"""The row between applicable and other what-ifs."""
CHOICE = " ‹›"
"""The mark of a what-if with other values."""
SHORT = {"exact": "exact", "numerics": "num.", "convergence": "conv."}
ON = "[on]"
_MARK = 4


def whatif_rows(
    estimates: Mapping[str, EstimateReport],
    checked: Collection[str],
    baseline: BaselineReport,
    width: int,
    spent: Collection[str] = (),
) -> Iterator[tuple[str, Content]]:
    """Id and content of every row, in the given order; what-ifs in the code but not yet measured have ``[w]``."""
    possible = {name: item for name, item in estimates.items() if item.applicable}
    rest = {name: item for name, item in estimates.items() if not item.applicable}
    switches = {name: item for name, item in rest.items() if item.present is not None}
    others = {name: item for name, item in rest.items() if item.present is None}
    yield from _applicable(possible, checked, baseline, width, spent)
    for name, estimate in switches.items():
        yield name, _switch(estimate, width)
    if (possible or switches) and others:
        yield REST, Content.styled(f"do not apply here ({len(others)}):", MUTED)
    names = min(max(map(len, others), default=0), max(width // 3, 8))
    for name, estimate in others.items():
        label = middle(name, names).ljust(names)
        reason = textwrap.wrap(estimate.reason or "does not apply here", max(width - names - _MARK - 2, 20))
        margin = "\n" + " " * (_MARK + names + 2)
        yield name, Content.styled(f"[!] {label}  {margin.join(reason)}", MUTED)


def _switch(estimate: EstimateReport, width: int) -> Content:
    """A what-if in the code: it is on, and Space removes it if possible."""
    value = estimate.present or ""
    label = estimate.name if value in ("", "on") else f"{estimate.name}={value}"
    if estimate.removal == "available":
        said = "in the code; Space removes it"
    else:
        said = f"in the code; {estimate.removal_reason or 'to be removed by hand'}"
    label = middle(label, max(width // 3, 8))
    lines = textwrap.wrap(said, max(width - len(label) - len(ON) - 3, 20))
    margin = "\n" + " " * (len(ON) + len(label) + 3)
    return Content.assemble((f"{ON} ", "bold $text-primary"), label, "  ", (margin.join(lines), MUTED))


def _applicable(
    estimates: Mapping[str, EstimateReport],
    checked: Collection[str],
    baseline: BaselineReport,
    width: int,
    spent: Collection[str],
) -> Iterator[tuple[str, Content]]:
    """Name, change of time, semantics, change of memory."""
    labels = {name: name + CHOICE * bool(item.values) for name, item in estimates.items()}
    memories = {name: saved_memory(item, baseline) for name, item in estimates.items()}
    longest = max(map(len, labels.values()), default=0)
    memory_width = max(map(len, memories.values()), default=0)
    scale = time_scale_of(estimates.values())
    gap, time_width, kind_width, room = "  ", 0, 0, width
    kinds, times = dict[str, str](), dict[str, str]()
    # Reduce the space between columns and shorten words before cutting a name.
    for gap, short in (("  ", False), (" ", False), (" ", True)):
        kinds = {name: SHORT[item.semantics] if short else item.semantics for name, item in estimates.items()}
        kind_width = max(map(len, kinds.values()), default=0)
        room = width - _MARK - kind_width - memory_width - 3 * len(gap)
        time_room = room - min(longest, 15)
        times = {name: saved_time(item, scale, time_room) for name, item in estimates.items()}
        time_width = max(map(len, times.values()), default=0)
        if longest + time_width <= room:
            break
    name_width = max(min(longest, room - time_width), 8)
    if estimates:
        titles = (
            fitting(time_width, "change per iteration", "per iteration", "time", "").rjust(time_width),
            fitting(kind_width, "results", "").ljust(kind_width),
            fitting(memory_width, "peak memory", "memory", "").rjust(memory_width),
        )
        yield HEAD, Content.styled(gap.join((" " * (_MARK + name_width), *titles)), MUTED)
    for name, estimate in estimates.items():
        sign = "[w] " if name in spent else "[x] "
        mark = (sign, "bold $text-success") if name in checked else ("[ ] ", "")
        more = CHOICE if estimate.values else ""
        label = middle(name, name_width - len(more))
        blank = " " * (name_width - len(label) - len(more))
        time = (times[name].rjust(time_width), DIRECTION_STYLES[direction(estimate.speedup_range)])
        kind = (
            kinds[name].ljust(kind_width),
            "" if estimate.semantics == "exact" else "$text-warning",
        )
        memory = memories[name].rjust(memory_width)
        row = Content.assemble(mark, label, (more, MUTED), blank, gap, time, gap, kind, gap, memory)
        yield name, row + _once(estimate, width)


def _once(estimate: EstimateReport, width: int) -> Content:
    """The one-off cost, on separate lines, because it reduces the gain per iteration."""
    words = one_off_words(estimate.one_off_s, estimate.break_even_iterations)
    if not words:
        return Content("")
    margin = " " * _MARK
    lines = textwrap.wrap(f"once: {words}", max(width - _MARK, 20))
    return Content.styled("".join(f"\n{margin}{line}" for line in lines), MUTED)
