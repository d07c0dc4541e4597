"""Differences between the current code and the profiled code, as far as the journal knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyline.report.protocol import CodeChange, CodeChanges, Verifiable
from skyline.source.knob import KnobKind
from skyline.source.text import SourceText
from skyline.source.written_change import counterpart
from skyline_lsp.journal import JournalEntry, name_of

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import Prepared, ScriptState


def code_changes(server: SkylineServer, state: ScriptState) -> CodeChanges:
    """What-ifs added to and removed from the code since the profile, and the changes that can be reverted."""
    read, prepared = server.texts.shown, state.prepared

    def as_profiled(path: str) -> SourceText | None:
        return prepared.sources.get(path) if prepared is not None else None

    added: dict[str, str] = {}
    removed: dict[str, str] = {}
    here: list[tuple[JournalEntry, bool]] = []
    for entry in server.journal.of(state.path, read):
        now, measured = entry.is_in(read), entry.is_in(as_profiled)
        if now:
            here.append((entry, measured))
        if now == measured:
            continue
        put, taken = (entry.whatifs, entry.removes) if now else (entry.removes, entry.whatifs)
        for spec in put:
            removed.pop(name_of(spec), None)
            added[name_of(spec)] = spec
        for spec in taken:
            added.pop(name_of(spec), None)
            removed[name_of(spec)] = spec
    batch_size = _batch_size_now(server, prepared)
    if batch_size is None:
        batch_size = next(
            (one.batch_size for one, known in reversed(here) if one.batch_size and not known), None
        )
    own = prepared.report.batch_size.value if prepared is not None else None
    return CodeChanges(
        uri=state.uri,
        batchSize=batch_size if batch_size != own else None,
        whatifs=tuple(added.values()),
        removed=tuple(removed),
        changes=tuple(
            CodeChange(entry.label, entry.batch_size, entry.whatifs, entry.removes, measured)
            for entry, measured in here
        ),
        verify=_verifiable(here, prepared),
    )


def _verifiable(here: list[tuple[JournalEntry, bool]], prepared: Prepared | None) -> Verifiable | None:
    """The changes that a verification would measure, and the profile from before the first of them."""
    asked = [(entry, measured) for entry, measured in here if entry.batch_size is not None or entry.whatifs]
    if not asked or prepared is None:
        return None
    # Without a measured change, the latest profile contains none of them and is the baseline.
    profile = next((entry.profile for entry, measured in asked if measured), prepared.report.id)
    specs = {name_of(spec): spec for entry, _ in asked for spec in entry.whatifs}
    batch_size = next(
        (entry.batch_size for entry, _ in reversed(asked) if entry.batch_size is not None), None
    )
    return Verifiable(profile, batch_size, tuple(specs.values()))


def _batch_size_now(server: SkylineServer, prepared: Prepared | None) -> int | None:
    """The current batch size in the code. None if it is not a number or its place cannot be found."""
    knob = prepared.report.batch_size.knob if prepared is not None else None
    if prepared is None or knob is None or knob.kind == KnobKind.COMMAND_LINE.value:
        return None
    source, now = prepared.sources.get(knob.file), server.texts.shown(knob.file)
    if source is None or now is None:
        return None
    start, end = source.offset(knob.line, knob.column), source.offset(knob.line, knob.end_column)
    place = counterpart(source.text, now.text, start, end)
    try:
        return int(now.text[place[0] : place[1]], 0) if place is not None else None
    except ValueError:
        return None
