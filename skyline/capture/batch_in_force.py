"""Finds the actual batch size of a run, from the loader in its loop or from the inputs of its model."""

from __future__ import annotations

from skyline.capture.bare import BareRows
from skyline.capture.events import LoaderSeen, RunFacts
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import Knob, SettingPlace
from skyline.source.setting_names import is_batch_name
from skyline.source.settings_file import batch_size_places


@dataclass(frozen=True, slots=True)
class BatchInForce:
    """The batch size of a run: ``size`` is None if nothing shows it, ``loader`` is the loop's loader if it has one.

    ``knobs`` are the candidates with exactly this value, best first. ``places`` are the settings with this value.
    """

    size: int | None
    knobs: tuple[Knob, ...] = ()
    loader: LoaderSeen | None = None
    places: tuple[SettingPlace, ...] = ()
    sure: bool = False
    """True if a loader or a first dimension shows the size; a second dimension may be something else."""


UNKNOWN = BatchInForce(None)


def batch_in_force(
    candidates: tuple[Knob, ...],
    facts: RunFacts,
    rows: BareRows,
    settings: tuple[tuple[str, str], ...] = (),
    arguments: tuple[str, ...] = (),
) -> BatchInForce:
    """The batch size that the run shows. ``settings`` are the settings files that it opened, as (path, text).

    ``arguments`` are the arguments of the script: they may name a section of such a file.

    The loader in the loop decides, whatever the source seems to say. Without a loader, a candidate or a setting must
    equal a leading dimension. First dimensions of the model's inputs are checked first, then second dimensions (the
    batch of recurrent networks), then dimensions of other tensors. A second dimension is usually the number of
    features: it shows the batch only of a candidate that is named like one.
    """
    loader = loop_loader(facts, rows)
    if loader is not None and loader.batch_size:
        size = loader.batch_size
        places = _places(settings, size, candidates, arguments)
        return BatchInForce(size, _holding(candidates, size), loader, places, sure=True)
    named = tuple(knob for knob in candidates if is_batch_name(knob.name))
    for seen, fitting in (
        (facts.fed_dimensions, candidates),
        (facts.fed_second_dimensions, named),
        (facts.first_dimensions, candidates),
        (facts.leading, named),
    ):
        held = [knob.value for knob in fitting if knob.value in seen]
        for size in (*held, *seen):
            knobs, places = _holding(fitting, size), _places(settings, size, candidates, arguments)
            if knobs or places:
                return BatchInForce(size, knobs, None, places, sure=size in facts.first_dimensions)
    return UNKNOWN


def loop_loader(facts: RunFacts, rows: BareRows) -> LoaderSeen | None:
    """The loader of the training loop, which gave batches in the most iterations; None if the loop uses no loader."""
    if not rows.rows or not rows.fetches:
        return None
    # Iterations count, not batches: an evaluation takes many batches in one iteration, and a script that loads its
    # data beforehand takes a batch before the loop.
    return max(facts.loaders, key=lambda loader: (loader.iterations, loader.fetches), default=None)


def may_follow(knob: Knob, facts: RunFacts) -> bool:
    """True if the knob may set the batch although the run shows no such size: the run shows a multiple of it.

    Sequence models that flatten their batch do so. This is no proof: another value of the knob has to be tried.
    """
    return knob.value > 1 and any(dimension % knob.value == 0 for dimension in facts.first_dimensions)


def _holding(candidates: tuple[Knob, ...], size: int) -> tuple[Knob, ...]:
    return tuple(knob for knob in candidates if knob.value == size)


def _places(
    settings: tuple[tuple[str, str], ...],
    size: int,
    candidates: tuple[Knob, ...],
    arguments: tuple[str, ...],
) -> tuple[SettingPlace, ...]:
    known = {(knob.span.file, knob.span.line) for knob in candidates}
    return tuple(
        place
        for place in batch_size_places(settings, size, arguments)
        if (place.file, place.line) not in known
    )
