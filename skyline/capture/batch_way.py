"""The ways to run the script at another batch size, and the check that a run actually had it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path, PurePath

from skyline.capture.events import LoaderSeen, RunFacts
from skyline.capture.request import LoaderBatch
from skyline.lazy_dataclass import dataclass
from skyline.source.batch_size import with_argument, with_value
from skyline.source.knob import Knob, KnobKind, SettingPlace
from skyline.source.settings_file import with_setting
from skyline.source.text import SourceText
from skyline.trace.facts import LoaderFact
from skyline.trace.record import CodeLine


@dataclass(frozen=True, slots=True)
class LoaderWay:
    """Gives another batch size to the loaders of one line that have ``size``; no source is edited, even in memory."""

    line: CodeLine
    size: int


BatchWay = Knob | SettingPlace | LoaderWay


@dataclass(frozen=True, slots=True)
class SizedRun:
    """The changes that a run at another batch size needs: texts by real path, arguments, loaders."""

    sources: dict[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[str, ...] = ()
    loader: LoaderBatch | None = None


def loader_way(loader: LoaderSeen | LoaderFact | None) -> LoaderWay | None:
    """The way through this loader; None if it has no batch size or no line in the user's code."""
    if loader is None or not loader.batch_size or loader.created_line is None:
        return None
    return LoaderWay(loader.created_line, loader.batch_size)


def sized_run(
    way: BatchWay, batch_size: int, arguments: tuple[str, ...], sources: Mapping[str, str]
) -> SizedRun | None:
    """The run at another batch size; ``sources`` are texts that replace files, others are read from disk.

    None if the place no longer holds the old value.
    """
    match way:
        case Knob():
            texts, changed = run_with(way, batch_size, arguments, sources)
            return SizedRun(texts, changed)
        case LoaderWay():
            loader = LoaderBatch(way.line.file, way.line.line, way.size, batch_size)
            return SizedRun({}, arguments, loader)
        case SettingPlace():
            real = str(Path(way.file).resolve())
            text = sources[real] if real in sources else SourceText.read(way.file).text
            changed_text = with_setting(way, text, batch_size)
            return SizedRun({real: changed_text}, arguments) if changed_text is not None else None


def run_with(
    knob: Knob, batch_size: int, arguments: tuple[str, ...], sources: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Source overrides (real path -> text) and arguments that make the script run at another batch size.

    ``sources`` are texts that replace files; a file that is not among them is read from disk.
    """
    if knob.kind is KnobKind.COMMAND_LINE:
        return {}, with_argument(knob, arguments, batch_size)
    real = str(Path(knob.span.file).resolve())
    text = (
        SourceText.of(knob.span.file, sources[real]) if real in sources else SourceText.read(knob.span.file)
    )
    return {real: text.apply([with_value(knob, text, batch_size)]).text}, arguments


def ignored(way: BatchWay) -> str:
    """The message for the user that the run did not follow the change."""
    match way:
        case Knob():
            place = f"{PurePath(way.span.file).name}:{way.span.line}"
            return f"Changing {way.name} at {place} did not change the batch of the run."
        case LoaderWay():
            place = f"{PurePath(way.line.file).name} line {way.line.line}"
            return f"The loader at {place} did not give batches of another size."
        case SettingPlace():
            return f"Changing {way.words} did not change the batch of the run."


def followed_by(
    way: BatchWay, batch_size: int, wanted: int, before: RunFacts, loader: LoaderSeen | None, after: RunFacts
) -> bool:
    """True if a run had size ``wanted``: its facts ``after`` are compared with ``before``, those at ``batch_size``."""
    if loader is None or not loader.batch_size:
        return followed(batch_size, wanted, before.first_dimensions, after.first_dimensions) or followed(
            batch_size, wanted, before.leading, after.leading
        )
    line = loader.created_line
    same = [one for one in after.loaders if _line(one.created_line) == _line(line)] or list(after.loaders)
    if not any(one.batch_size == wanted for one in same):
        return False
    # The loader's attribute is not enough if its batches show their size: a sampler may have made them beforehand.
    return not isinstance(way, LoaderWay) or batch_size not in before.leading or wanted in after.leading


def showed(batch_size: int, wanted: int, before: RunFacts, after: RunFacts) -> bool:
    """True unless the facts contradict that a run had ``wanted``; the loader with the most iterations counts."""
    loader = max(before.loaders, key=lambda one: (one.iterations, one.fetches), default=None)
    if loader is None or loader.batch_size != batch_size:
        seen_before, seen_after = before.batch_sizes_seen, after.batch_sizes_seen
        return not seen_after or followed(batch_size, wanted, seen_before, seen_after)
    delivering = max(after.loaders, key=lambda one: (one.iterations, one.fetches), default=None)
    return delivering is None or delivering.batch_size == wanted


def followed(batch_size: int, wanted: int, before: Iterable[int], after: Iterable[int]) -> bool:
    """True if the sizes seen changed from one batch size to the other, or from a multiple to the same multiple."""
    seen_before, seen_after = set(before), set(after)
    multiples = {dimension // batch_size for dimension in seen_before if dimension % batch_size == 0}
    return any(wanted * multiple in seen_after for multiple in multiples if multiple)


def _line(line: CodeLine | None) -> tuple[str, int] | None:
    # A changed literal does not move lines, so that lines of both runs can be compared.
    return (line.file, line.line) if line else None
