"""Streams of records that show the problem of a rule, and streams that do not, by the name of the rule.

``test_rules.py`` checks each of them; ``benchmarks/watch_rules.py`` counts them.
"""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from skyline.trace.facts import MachineLoad
from skyline.watch.course import LoadReading, MemoryLevel
from skyline.watch.records import Record, Save, Validation
from skyline.watch.registry import known_rules
from skyline.watch.rule import Alert, Note, WatchRule

_spec = importlib.util.spec_from_file_location("watch_streams", Path(__file__).with_name("streams.py"))
assert _spec is not None
assert _spec.loader is not None
streams = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(streams)
course_of, windows, samples = streams.course_of, streams.windows, streams.samples


@dataclass(frozen=True)
class Stream:
    """Records as they arrive, in order; ``memory`` levels, ``loads`` and ``peers`` are there from the start."""

    records: tuple[Record, ...] = ()
    memory: tuple[MemoryLevel, ...] = ()
    peers: tuple[tuple[Record, ...], ...] = ()
    loads: tuple[LoadReading, ...] = ()

    def first_alert(self, name: str) -> Alert | None:
        """The first alert of the rule of this name, with its usual thresholds."""
        return self.alert_of(known_rules().classes[name]())

    def alert_of(self, rule: WatchRule) -> Alert | None:
        """The first alert of a rule while the records arrive."""
        return next((one for one in self._found(rule) if isinstance(one, Alert)), None)

    def note_of(self, rule: WatchRule) -> Note | None:
        """The first note of a rule while the records arrive."""
        return next((one for one in self._found(rule) if isinstance(one, Note)), None)

    def _found(self, rule: WatchRule) -> Iterator[Alert | Note]:
        course = course_of(memory=self.memory)
        course.loads.extend(self.loads)
        for records in self.peers:
            peer = course_of(*records)
            peer.peers = course.peers
            course.peers.append(peer)
        if found := rule.check(course):
            yield found
        for record in self.records:
            course.add(record)
            if found := rule.check(course):
                yield found


def of(*groups: Iterable[Record] | Record) -> Stream:
    records: list[Record] = []
    for group in groups:
        records += group if isinstance(group, list) else [group]  # type: ignore[list-item]
    return Stream(tuple(records))


def levels(used: Iterable[float], *, total: float = 64e9, where: str = "host") -> Stream:
    made = [
        MemoryLevel(100 * n, int(value), int(total - value), int(total), where)
        for n, value in enumerate(used)
    ]
    return Stream(memory=tuple(made))


def loads(
    count: int, own_cores: float, others_cores: Callable[[int], float], cores: int = 2
) -> tuple[LoadReading, ...]:
    """Readings, one for each window of ``windows``; others take what a function of the window's number says."""
    return tuple(
        LoadReading(50 * (n + 1), MachineLoad(own_cores, others_cores(n), cores)) for n in range(count)
    )


NOISE = random.Random(5)


def noisy(level: float, spread: float = 0.1) -> float:
    return level * (1 + spread * (2 * NOISE.random() - 1))


def trained(count: int, validation: float) -> Stream:
    """Losses of training that fall, a validation every five windows with losses that change by ``validation`` each."""
    records: list[Record] = []
    for number, window in enumerate(windows(count, loss=lambda n: 2.0 / (1 + n))):
        records.append(window)
        if number % 5 == 4:
            falling = 1.0 / (1 + number)
            rising = validation * number
            records.append(Validation(window.iteration, falling + rising, 10))
    return Stream(tuple(records))


OTHERS_LOAD = replace(
    of(
        windows(
            60,
            seconds=lambda n: noisy(0.5 if n < 40 else 0.9),
            delayed_s=lambda n: noisy(0.02 if n < 40 else 0.4),
            processor_s=0.3,
        )
    ),
    loads=loads(60, 0.4, lambda n: 0.1 if n < 38 else 1.6),
)
"""Other programs begin to take 80 % of the machine."""
GRADIENTS = ((0, 1.0), (1, 2.0), (2, 0.5), (3, 3.0))
UPDATES = ((0, 1e-3, 1.0, 0.5), (3, 1e-3, 2.0, 0.5))

SHOWS: dict[str, list[Stream]] = {
    "throughput_falls": [
        of(windows(60, seconds=lambda n: noisy(0.5 if n < 40 else 0.9))),
        of(windows(80, seconds=lambda n: 0.5 + 0.01 * n)),
        # It became slower by itself; other programs have run from the start.
        replace(
            of(
                windows(
                    60,
                    seconds=lambda n: noisy(0.6 if n < 40 else 1.0),
                    delayed_s=lambda n: noisy(0.1),
                    processor_s=0.2,
                )
            ),
            loads=loads(60, 0.4, lambda n: 1.6),
        ),
        # More threads of the run share its processors; other programs take little.
        replace(
            of(
                windows(
                    60, seconds=lambda n: 0.5 if n < 40 else 0.9, delayed_s=lambda n: 0.0 if n < 40 else 0.4
                )
            ),
            loads=loads(60, 1.9, lambda n: 0.1),
        ),
    ],
    "loader_stalls": [
        of(windows(12, wait_s=0.3, longest_wait_s=0.02)),
        of(windows(30, wait_s=lambda n: 0.0 if n < 10 else 0.45, longest_wait_s=0.2)),
    ],
    "gpu_idle": [
        of(windows(20, device="cuda", idle_s=0.005)),
        of(windows(25, device="xpu", idle_s=lambda n: noisy(0.009))),
    ],
    "memory_grows": [
        levels(2e9 + 20e6 * n for n in range(40)),
        levels((1e9 + 10e6 * n for n in range(60)), total=8e9, where="cuda"),
    ],
    "memory_nearly_full": [
        levels([63e9] * 5),
        levels([10e9, 23.9e9, 23.8e9, 23.9e9], total=24e9, where="cuda"),
    ],
    "straggler": [
        Stream(
            tuple(windows(12, own_s=0.4)),
            peers=(tuple(windows(12, own_s=0.15)), tuple(windows(12, own_s=0.16))),
        ),
        Stream(tuple(windows(12, own_s=0.3, wait_s=0.25)), peers=(tuple(windows(12, own_s=0.1)),)),
    ],
    "loss_not_finite": [
        of(windows(3, loss=1.0, largest_loss=1.0), windows(1, loss=math.nan, largest_loss=math.nan)),
        of(windows(1, loss=5.0, largest_loss=math.inf)),
    ],
    "loss_not_falling": [
        of(windows(60, loss=lambda n: noisy(2.3, 0.005))),
        of(windows(90, loss=lambda n: 2.3 / (1 + n) if n < 40 else 0.1 * (n - 39))),
    ],
    "exploding_gradients": [
        of(samples(10, gradients=GRADIENTS), samples(1, gradients=((0, 5e3), (1, 2.0)))),
        of(samples(1, gradients=((1, math.inf),))),
        of(samples(10, gradients=GRADIENTS, clipped=4.0), samples(1, gradients=GRADIENTS, clipped=900.0)),
    ],
    "vanishing_gradients": [of(samples(4, gradients=((0, 1e-9), (1, 1e-3), (3, 1.0))))],
    "dead_units": [of(samples(3, activations=(("relu", 1, 0.1), ("relu", 2, 0.9))))],
    "saturated_activations": [
        of(samples(3, activations=(("tanh", 1, 0.95),))),
        of(samples(5, activations=(("relu", 1, 0.1), ("sigmoid", 3, 0.85)))),
    ],
    "weights_not_updating": [
        of(samples(5, updates=((0, 0.0, 1.0, 0.5), (3, 1e-3, 1.0, 0.5)))),
        of(samples(5, missing=(3,), updates=UPDATES)),
    ],
    "overfitting": [trained(60, 0.02)],
    "unbalanced_classes": [
        of(samples(10, targets=(0,) * 60 + (1,) * 3 + (2,) * 20, classes=3)),
        of(samples(10, targets=(0,) * 60, classes=2)),
    ],
    "checkpoint_stalls": [of(windows(20), Save(1000, 0.4), windows(20), Save(2000, 0.5))],
}
SHOWS_NOT: dict[str, list[Stream]] = {
    "throughput_falls": [
        of(windows(120, seconds=lambda n: noisy(0.5))),
        # A validation pass in every tenth window.
        of(windows(120, seconds=lambda n: 5.0 if n % 10 == 0 else 0.5)),
        # The first iterations are slower.
        of(windows(120, seconds=lambda n: 2.0 if n < 10 else 0.5)),
        # Other programs take the processors, as nearly all of the difference shows.
        OTHERS_LOAD,
    ],
    "loader_stalls": [
        of(windows(60, wait_s=lambda n: noisy(0.05))),
        of(windows(60, wait_s=lambda n: 0.4 if n % 8 == 0 else 0.01)),
    ],
    "gpu_idle": [of(windows(60, device="cuda", idle_s=0.0002)), of(windows(60))],
    "memory_grows": [
        levels([2e9] * 80),
        levels(2e9 + (20e6 * n if n < 15 else 300e6) for n in range(80)),
        levels(2e9 + 80e6 * (n % 12) for n in range(80)),
    ],
    "memory_nearly_full": [levels([10e9] * 10), levels([63e9, 10e9, 63e9, 10e9, 63e9, 10e9])],
    "straggler": [
        Stream(tuple(windows(12, own_s=0.16)), peers=(tuple(windows(12, own_s=0.15)),)),
        Stream(tuple(windows(12, own_s=0.4))),
        Stream(tuple(windows(12, own_s=0.008)), peers=(tuple(windows(12, own_s=0.004)),)),
    ],
    "loss_not_finite": [of(windows(20, loss=1e30, largest_loss=1e30)), of(windows(20))],
    "loss_not_falling": [
        of(windows(120, loss=lambda n: noisy(2.3 / (1 + 0.1 * n)))),
        # It has converged.
        of(windows(300, loss=lambda n: noisy(2.3 / (1 + n) if n < 20 else 0.1))),
        # Two optimizers train against each other.
        of(windows(120, loss=lambda n: noisy(0.7), optimizers=2)),
        # The regression has negative losses that fall.
        of(windows(120, loss=lambda n: -0.1 * n)),
    ],
    "exploding_gradients": [
        of(samples(60, gradients=lambda n: ((0, noisy(1.0, 0.9)), (1, noisy(2.0, 0.9))))),
        of(samples(60, gradients=lambda n: ((0, 20.0 if n % 9 == 0 else 1.0),))),
    ],
    "vanishing_gradients": [
        of(samples(20, gradients=GRADIENTS)),
        # The bias before a normalization.
        of(samples(20, gradients=((0, 1.0), (1, 2.0), (2, 1e-10)))),
        # An adapter that starts at zero has no gradient in the first step.
        of(samples(1, gradients=((0, 0.0), (1, 1.0))), samples(20, gradients=GRADIENTS)),
    ],
    "dead_units": [
        of(samples(20, activations=(("relu", 1, 0.2), ("tanh", 3, 0.9)))),
        of(samples(20, activations=lambda n: (("relu", 1, 0.9 if n % 3 == 0 else 0.3),))),
    ],
    "saturated_activations": [of(samples(20, activations=(("sigmoid", 1, 0.4), ("relu", 3, 0.9))))],
    "weights_not_updating": [
        of(samples(20, updates=UPDATES)),
        # Rows of an embedding that the batch does not use, and a warm-up that starts at zero.
        of(samples(20, updates=((0, 0.0, 1.0, 0.0), *UPDATES))),
        of(samples(1, updates=((0, 0.0, 1.0, 0.5),)), samples(20, updates=UPDATES)),
        of(samples(20, missing=lambda n: (n % 2,), updates=UPDATES)),
        # The bias before a normalization.
        of(samples(20, updates=((2, 0.0, 1.0, 1e-9), *UPDATES))),
    ],
    "overfitting": [trained(80, 0.0), of(windows(40, loss=1.0), Validation(900, 1.0), Validation(1000, 1.2))],
    "unbalanced_classes": [
        of(samples(30, targets=(0, 1, 2) * 20, classes=3)),
        of(samples(30, targets=(0,) * 60 + (1,), classes=2, weighted=True)),
        of(samples(2, targets=(0,) * 60, classes=2)),
        of(samples(30, targets=(3,) * 60, classes=50_000)),
    ],
    "checkpoint_stalls": [
        of(windows(100), Save(5000, 0.4), windows(100), Save(9000, 0.4)),
        of(windows(4), Save(200, 0.4)),
    ],
}
