"""Streams of records made by hand, as the hooks of a run send them."""

from __future__ import annotations

from collections.abc import Iterable

from skyline.trace.record import CodeLine
from skyline.watch.course import Course, MemoryLevel
from skyline.watch.records import Line, ParameterRow, Parameters, Record, Sample, Window
from skyline.watch.rule import Alert, WatchRule

SCRIPT = "/project/train.py"
SITES = {"loader": 4, "backward": 7, "step": 8, "validation": 12, "save": 14}
LAYERS = ("embed.weight", "body.weight", "body.bias", "head.weight")


def course_of(*records: Record, memory: Iterable[MemoryLevel] = ()) -> Course:
    """The course of one process with these records, its lines and its parameters."""
    course = Course()
    course.peers.append(course)
    for site, line in SITES.items():
        course.add(Line(site, SCRIPT, line))
    rows = [
        ParameterRow(name, 1 if name.endswith("bias") else 2, 10_000, CodeLine(SCRIPT, 20 + number))
        for number, name in enumerate(LAYERS)
    ]
    course.add(Parameters(tuple(rows)))
    for record in records:
        course.add(record)
    for level in memory:
        course.add_memory(level)
    return course


def windows(count: int, **fields: object) -> list[Window]:
    """Windows of 0.5 s with 50 iterations each; a field may be a function of the number of the window."""
    made: list[Window] = []
    for number in range(count):
        own = {name: value(number) if callable(value) else value for name, value in fields.items()}
        usual = {
            "iterations": 50,
            "seconds": 0.5,
            "typical_s": 0.01,
            "fetches": 50,
            "at_s": 0.5 * (number + 1),
        }
        made.append(Window(**{"iteration": 50 * (number + 1), **usual, **own}))  # type: ignore[arg-type]
    return made


def samples(count: int, **fields: object) -> list[Sample]:
    """Samples, one each 50 iterations; a field may be a function of the number of the sample."""
    return [
        Sample(
            50 * (number + 1),
            **{name: value(number) if callable(value) else value for name, value in fields.items()},  # type: ignore[arg-type]
        )
        for number in range(count)
    ]


def seen_over(rule: WatchRule, course: Course, records: Iterable[Record]) -> Alert | None:
    """The first alert while these records arrive one after another."""
    for record in records:
        course.add(record)
        if (alert := rule.check(course)) is not None:
            return alert
    return None
