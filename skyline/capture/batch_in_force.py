"""Which batch size a run really had: that of the loader in its loop, or what its model was fed."""

from __future__ import annotations

from skyline.capture.bare import BareRows
from skyline.capture.events import LoaderSeen, RunFacts
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import Knob, SettingPlace
from skyline.source.settings_file import batch_size_places


@dataclass(frozen=True, slots=True)
class BatchInForce:
    """``size`` is None where nothing shows it; ``loader`` had it, where the loop takes its batches from one.

    ``knobs`` are the candidates that hold exactly this size, best first, ``places`` the settings that do.
    """

    size: int | None
    knobs: tuple[Knob, ...] = ()
    loader: LoaderSeen | None = None
    places: tuple[SettingPlace, ...] = ()
    sure: bool = False
    """True if a loader or the first dimension of the model's input shows it; the second may be something else."""


UNKNOWN = BatchInForce(None)


def batch_in_force(
    candidates: tuple[Knob, ...],
    facts: RunFacts,
    rows: BareRows,
    settings: tuple[tuple[str, str], ...] = (),
    arguments: tuple[str, ...] = (),
) -> BatchInForce:
    """The batch size that the run shows. ``settings`` are the files of settings that it opened, as (path, text).

    ``arguments`` are those of the script: they may name a section.

    A loader in the loop is the truth, whatever the source seems to say. Without one a candidate or a setting must be
    exactly a leading dimension: the first of what the model was fed before the second, which is the batch of recurrent
    networks, and both before those of other tensors.
    """
    loader = loop_loader(facts, rows)
    if loader is not None and loader.batch_size:
        size = loader.batch_size
        places = _places(settings, size, candidates, arguments)
        return BatchInForce(size, _holding(candidates, size), loader, places, sure=True)
    for seen in (
        facts.fed_dimensions,
        facts.fed_second_dimensions,
        facts.first_dimensions,
        facts.leading,
    ):
        held = [knob.value for knob in candidates if knob.value in seen]
        for size in (*held, *seen):
            knobs, places = _holding(candidates, size), _places(settings, size, candidates, arguments)
            if knobs or places:
                return BatchInForce(size, knobs, None, places, sure=size in facts.first_dimensions)
    return UNKNOWN


def loop_loader(facts: RunFacts, rows: BareRows) -> LoaderSeen | None:
    """The loader of the training loop: it gave batches in most iterations; None where the loop takes none."""
    if not rows.rows or not rows.fetches:
        return None
    # An evaluation takes many batches at once, a script that loads its data beforehand takes one before the loop.
    return max(facts.loaders, key=lambda loader: (loader.iterations, loader.fetches), default=None)


def may_follow(knob: Knob, facts: RunFacts) -> bool:
    """True if a run without a batch of the knob's size may still be set by it: it feeds multiples of that.

    A sequence model that flattens its batch does. It proves nothing: another value of the knob has to be tried.
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
