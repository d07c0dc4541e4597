"""A profile as it may be kept: without the secrets in its arguments, its output, and the names that the script gave."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TypeVar

from skyline.capture.redactor import Redactor
from skyline.trace.profile import Profile
from skyline.trace.record import Trace

_Value = TypeVar("_Value")


def secret_free(profile: Profile, redactor: Redactor) -> Profile:
    """The profile without secrets. What stands in the source is kept as it is: it is the person's to keep."""
    scrub = cache(redactor.scrub)

    def options(given: dict[str, _Value]) -> dict[str, _Value | str]:
        return {name: scrub(value) if isinstance(value, str) else value for name, value in given.items()}

    trace = profile.trace
    clean = {name: scrub(name) for name in {record.name for record in trace.records}}
    return replace(
        profile,
        arguments=redactor.scrub_arguments(profile.arguments),
        output_tail=scrub(profile.output_tail),
        notes=tuple(map(scrub, profile.notes)),
        warmup_reason=scrub(profile.warmup_reason),
        modules=tuple(
            replace(one, path=scrub(one.path), options=options(one.options)) for one in profile.modules
        ),
        trials=tuple(
            replace(
                trial,
                operators=tuple(
                    replace(one, name=scrub(one.name), module=scrub(one.module)) for one in trial.operators
                ),
            )
            for trial in profile.trials
        ),
        calls=tuple(replace(one, options=options(one.options)) for one in profile.calls),
        trace=Trace(
            iterations=trace.iterations,
            lines=trace.lines,
            modules=tuple(map(scrub, trace.modules)),
            records=tuple(
                record if clean[record.name] == record.name else replace(record, name=clean[record.name])
                for record in trace.records
            ),
            allocations=trace.allocations,
            shapes=trace.shapes,
            functions=tuple(map(scrub, trace.functions)),
        ),
    )
