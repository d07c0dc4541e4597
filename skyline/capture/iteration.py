"""One iteration of the script, described in figures and in one sentence."""

from __future__ import annotations

from pathlib import PurePath

from skyline.capture.bare import BareRows
from skyline.capture.events import OptimizerSeen, RunFacts
from skyline.trace.facts import FRAMEWORKS, MODEL_CALL, IterationFact
from skyline.trace.record import CodeLine

OPTIMIZER_STEP = "optimizer step"
BACKWARD_PASS = "backward pass"
INFERENCE = "inference"
"""The style of a script that does not train."""


def iteration_fact(facts: RunFacts, rows: BareRows) -> IterationFact:
    """The division of the run into iterations, from the end of warm-up and the timed iterations."""
    styles = _styles(facts, rows)
    return IterationFact(
        meaning=_meaning(facts, rows, styles),
        boundary=_boundary(facts),
        optimizer_steps=rows.optimizer_steps,
        backward_passes=rows.backward_calls,
        batches=rows.fetches,
        styles=styles,
        rank=facts.rank,
        world_size=facts.world_size,
    )


def _boundary(facts: RunFacts) -> str:
    if facts.model is not None:
        return MODEL_CALL
    return OPTIMIZER_STEP if facts.optimizers and facts.cut_at is None else BACKWARD_PASS


def _styles(facts: RunFacts, rows: BareRows) -> tuple[str, ...]:
    found: list[str] = []
    if facts.model is not None:
        found.append(INFERENCE)
    elif not facts.optimizers:
        found.append("hand-written update")
    elif len(facts.optimizers) > 1:
        found.append("several optimizers")
    elif _accumulates(facts, rows):
        found.append("gradient accumulation")
    if facts.world_size > 1:
        found.append("distributed")
    return tuple(dict.fromkeys((*found, *facts.styles)))


def _accumulates(facts: RunFacts, rows: BareRows) -> bool:
    """True if there are several backward passes per step, except for a closure (LBFGS) that repeats one batch."""
    repeats = "closure" in facts.styles and rows.fetches < 1.5
    return rows.backward_calls >= 1.5 and not repeats


def _meaning(facts: RunFacts, rows: BareRows, styles: tuple[str, ...]) -> str:
    passes, batches = rows.backward_calls, rows.usual_fetches
    if facts.model is not None:
        line = facts.model.line
        place = f" ({PurePath(line.file).name} line {line.line})" if line is not None else ""
        text = f"one call of {facts.model.name}{place}, without training"
    elif facts.cut_at is not None:
        text = _pass_of(facts, facts.cut_at)
    elif not facts.optimizers:
        text = "one update that the script makes by hand, without a torch optimizer: "
        text += _count(facts.passes_per_update, "backward pass", "backward passes")
    else:
        text = _steps(facts.optimizers)
        if "gradient accumulation" in styles:
            over = f" over {_count(batches, 'batch', 'batches')}" if batches >= 1.5 else ""
            text += (
                f", with {_count(passes, 'backward pass', 'backward passes')}{over} (gradient accumulation)"
            )
        elif "several optimizers" in styles and passes >= 1.5:
            text += f", with {_count(passes, 'backward pass', 'backward passes')}"
        elif "closure" in styles and passes >= 1.5:
            text += f", whose closure runs forward and backward {_number(passes)} times"
        elif passes < 0.05:
            text += ", without a backward pass"
    # The first that applies: the Trainer, for one, is built on Accelerate.
    if framework := [name for name in FRAMEWORKS if name in styles]:
        text += f", in the loop of {framework[0]}"
    if facts.world_size > 1:
        text += f", on rank {facts.rank} of {facts.world_size}"
    skipped = sum(optimizer.skipped for optimizer in facts.optimizers)
    if skipped:
        of = sum(optimizer.steps for optimizer in facts.optimizers)
        text += f"; {skipped} of the first {of} steps were skipped by the gradient scaler (overflow)"
    return text


def _pass_of(facts: RunFacts, line: CodeLine) -> str:
    """The description of one pass of an iteration that is too long to be measured as a whole."""
    place = f"{PurePath(line.file).name} line {line.line}"
    whole = "a step of " + " and ".join(dict.fromkeys(optimizer.name for optimizer in facts.optimizers))
    if "closure" in facts.styles:
        return f"one evaluation of the closure ({place}), of the many in {whole}"
    return f"one forward and backward pass ({place}), of the many before {whole}"


def notes_on_cutting(facts: RunFacts) -> tuple[str, ...]:
    """A note if a measured iteration is only a part of the script's own iteration."""
    if facts.cut_at is None:
        return ()
    what = "one evaluation of the closure" if "closure" in facts.styles else "one forward and backward pass"
    note = (
        f"An optimizer step of the script takes too long to be measured whole: an iteration here is {what}. "
    )
    return (f"{note}Work that the script does once per step may be missing.",)


def _steps(optimizers: tuple[OptimizerSeen, ...]) -> str:
    """The steps of an iteration in words; optimizers that step once come first, because one of them ends it."""
    counts = [(optimizer, optimizer.steps_lately) for optimizer in optimizers if optimizer.steps_lately]
    if not counts:
        # Hardly anything has run: only the counts since the start are available.
        least = min(optimizer.steps for optimizer in optimizers)
        counts = [(optimizer, round(optimizer.steps / least)) for optimizer in optimizers]
    once = [_place(optimizer) for optimizer, count in counts if count == 1]
    parts = [f"{count} steps of {_place(optimizer)}" for optimizer, count in counts if count > 1]
    if len(once) > 1:
        parts.insert(0, f"one step each of {', '.join(once[:-1])} and {once[-1]}")
    elif once:
        parts.insert(0, f"one step of {once[0]}")
    return " and ".join(parts)


def _place(optimizer: OptimizerSeen) -> str:
    line = optimizer.step_line
    return f"{optimizer.name} ({PurePath(line.file).name} line {line.line})" if line else optimizer.name


def _number(value: float) -> str:
    whole = round(value)
    return str(whole) if abs(value - whole) < 0.05 else f"about {value:.1f}"


def _count(value: float, one: str, many: str) -> str:
    number = _number(value)
    return f"{number} {one if number == '1' else many}"
