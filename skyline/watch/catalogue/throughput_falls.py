"""Iterations take longer than they did before."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import MachineLoad
from skyline.units import format_ms, format_share
from skyline.watch.course import Course, mean
from skyline.watch.records import Window
from skyline.watch.rule import Alert, Note

_WARM_UP = 4
"""Number of windows left out at the start."""


@dataclass(frozen=True, slots=True)
class ThroughputFalls:
    """Compares the medians of the last ``windows`` windows and of the fastest earlier ones of that number.

    If other programs took the processors, the result is a note, not an alert.
    """

    slower: float = 0.3
    windows: int = 20

    def check(self, course: Course) -> Alert | Note | None:
        """Refers to the loader if the waits for data grew as much, else to the optimizer step."""
        known = list(islice(course.windows, _WARM_UP, None))
        if len(known) < 2 * self.windows:
            return None
        starts = range(len(known) - self.windows, -1, -self.windows)
        blocks = [known[start : start + self.windows] for start in starts]
        times = [median([window.iteration_s for window in block]) for block in blocks]
        now, before = times[0], min(times[1:])
        if now < before * (1 + self.slower):
            return None
        fastest = times.index(before, 1)
        longer = f"iterations take {format_ms(now * 1e3)}, {format_share(now / before - 1)} more than before"
        load = _busier_half(course, blocks[0])
        taken = _taken(load)
        own_s = _without_others(course, load, blocks[0], blocks[fastest])
        if own_s is not None and own_s[0] < own_s[1] * (1 + self.slower):
            without = f"{format_ms(own_s[0] * 1e3)}, {format_ms(own_s[1] * 1e3)} before"
            return Note(taken, (longer, f"without the time that other programs took: {without}"))
        waits = [
            sum(window.wait_s for window in block) / sum(window.iterations for window in block)
            for block in blocks
        ]
        by_data = waits[0] - waits[fastest]
        computed = [_computed_ms(blocks[0]), _computed_ms(blocks[fastest])]
        return Alert(
            longer,
            (
                f"{format_ms(before * 1e3)} in iterations up to {blocks[fastest][-1].iteration}",
                f"waiting for data accounts for {format_ms(max(by_data, 0.0) * 1e3)} of the difference",
                *(
                    (
                        f"processor time of its thread: {format_ms(computed[0])}, {format_ms(computed[1])} before",
                    )
                    if all(computed)
                    else ()
                ),
                *((taken,) if taken else ()),
            ),
            course.line("loader", "step")
            if by_data > (now - before) / 2
            else course.line("step", "backward"),
        )


def _computed_ms(block: list[Window]) -> float:
    """Processor time of an iteration in ms; 0 if unknown. If it is unchanged, waits or other programs are the cause."""
    return 1e3 * median([(window.processor_s or 0.0) / window.iterations for window in block])


def _busier_half(course: Course, block: list[Window]) -> MachineLoad | None:
    """The mean of the half of the readings with most load by others: a median is slow if half of the windows are."""
    loads = course.loads_between(block[0].iteration, block[-1].iteration)
    loads.sort(key=lambda one: -one.others_cores)
    half = loads[: -(-len(loads) // 2)]
    if not half:
        return None
    own, others = mean(one.own_cores for one in half), mean(one.others_cores for one in half)
    return MachineLoad(own, others, half[0].cores)


def _taken(load: MachineLoad | None) -> str:
    """The share of the machine that others take, in words; empty if they leave room, or if it is unknown."""
    if load is None or not load.busy:
        return ""
    return f"other programs take {format_share(load.others_cores / load.cores)} of the machine"


def _without_others(course: Course, load: MachineLoad | None, *blocks: list[Window]) -> list[float] | None:
    """The time of an iteration in each block, without the part in which other programs used its processor.

    None if they leave room on the machine, or if something is unknown. While the training thread is ready but
    has no processor, other programs and further threads of the run use it, each in proportion to its
    processor time.
    """
    if load is None or not load.busy:
        return None
    now = blocks[0]
    thread_cores = sum(one.processor_s or 0.0 for one in now) / sum(one.seconds for one in now)
    further = max(0.0, load.own_cores - thread_cores)
    share = load.others_cores / (load.others_cores + further)
    found: list[float] = []
    for block in blocks:
        delays = _delays_s(block)
        if len(delays) < len(block):
            return None
        own_s = median(
            [one.iteration_s - share * delay_s for one, delay_s in zip(block, delays, strict=True)]
        )
        found.append(own_s - share * max(0.0, _longest_s(course, block) - median(delays)))
    return found


def _longest_s(course: Course, block: list[Window]) -> float:
    """The longest delay of an iteration among several ranks, for which the others wait."""
    first, last = block[0].iteration, block[-1].iteration
    of_peers = (
        _delays_s([one for one in peer.windows if first <= one.iteration <= last]) for peer in course.peers
    )
    return max((median(delays) for delays in of_peers if delays), default=0.0)


def _delays_s(windows: Iterable[Window]) -> list[float]:
    """The time per iteration in which the training thread was ready but had no processor, if known."""
    return [one.delayed_s / one.iterations for one in windows if one.delayed_s is not None]


RULE = ThroughputFalls
