"""Facts about a run before its profile exists: at first from the source, then from the first iterations."""

from __future__ import annotations

from skyline.capture.bare import BareRows
from skyline.capture.batch_in_force import batch_in_force
from skyline.capture.events import Ready, RunFacts
from skyline.capture.request import Known
from skyline.errors import SkylineError
from skyline.interval import interval_of_first, interval_of_series
from skyline.source.knob import KnobKind, KnobSearch
from skyline.source.text import SourceText
from skyline.source.training_loop import find as find_loop

_DEFAULTS = {KnobKind.DATACLASS_FIELD, KnobKind.PARAMETER_DEFAULT, KnobKind.DICT_ENTRY}


def from_source(text: SourceText, knobs: KnobSearch) -> Known:
    """Facts before anything has run: the batch size that the source seems to set, and its training loop."""
    try:
        loop = find_loop(text)
    except SkylineError:
        loop = None
    best = knobs.best
    return Known(
        # A default is not reported: the run may override it with values that it reads.
        batch_size=best.value if best is not None and best.kind not in _DEFAULTS else None,
        loop_line=loop.line if loop else None,
    )


def from_first_iterations(source: Known, knobs: KnobSearch, ready: Ready, rows: BareRows) -> Known:
    """Facts after the first timed iterations; the batch size is now the one that the run shows, if any."""
    batch_size = batch_in_force(knobs.candidates, ready.facts, rows).size
    on_device = ready.facts.environment.device.kind != "cpu"
    iteration_ms = (interval_of_series if on_device else interval_of_first)(rows.steps_ms)
    samples = batch_size * micro_batches(ready.facts, rows) if batch_size else 0
    return Known(
        batch_size=batch_size,
        loop_line=source.loop_line,
        iteration_ms=iteration_ms,
        throughput=iteration_ms.inverse(samples * 1e3) if samples else None,
        script_s=ready.script_s,
        files=ready.facts.modules,
    )


def micro_batches(facts: RunFacts, rows: BareRows) -> int:
    """Number of batches in one iteration; it is above 1 if gradients are accumulated."""
    if any(loader.fetches for loader in facts.loaders) and rows.fetches:
        return max(1, round(rows.usual_fetches))
    if "closure" in facts.styles:
        # A closure is called repeatedly on the same batch.
        return 1
    # Several optimizers make several backward passes over one batch.
    return max(1, round(rows.backward_calls)) if len(facts.optimizers) <= 1 else 1
