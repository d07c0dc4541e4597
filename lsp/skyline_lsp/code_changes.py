"""Differences between the current code and the profiled code, as far as the journal knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyline.lazy_dataclass import dataclass
from skyline.report.protocol import CodeChange, CodeChanges, Verifiable
from skyline.source.knob import KnobKind
from skyline.source.settings_file import entry_now
from skyline.source.text import SourceText
from skyline.source.written_change import counterpart
from skyline.whatif.registry import whatifs
from skyline_lsp.journal import JournalEntry, name_of

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import Prepared, ScriptState
import asyncio
from typing import TYPE_CHECKING

from skyline.report import protocol
from skyline_lsp import wire

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import ScriptState


@dataclass(frozen=True, slots=True)
class _Known:
    """A change of the journal: whether it is in the code now, and whether it is in the profiled code."""

    entry: JournalEntry
    now: bool
    measured: bool

    @property
    def put(self) -> tuple[str, ...]:
        """The what-ifs that the current code has because the change was made or was undone."""
        return self.entry.whatifs if self.now else self.entry.removes

    @property
    def taken(self) -> tuple[str, ...]:
        """The what-ifs that the current code lacks because the change was made or was undone."""
        return self.entry.removes if self.now else self.entry.whatifs


def code_changes(server: SkylineServer, state: ScriptState) -> CodeChanges:
    """What-ifs added to and removed from the code since the profile, and the changes that can be reverted."""
    read, prepared = server.texts.shown, state.prepared

    def as_profiled(path: str) -> SourceText | None:
        return prepared.as_profiled(path, read) if prepared is not None else None

    added: dict[str, str] = {}
    removed: dict[str, str] = {}
    known = [
        _Known(entry, entry.is_in(read), entry.is_in(as_profiled))
        for entry in server.journal.of(state.path, read)
    ]
    for one in known:
        if one.now == one.measured:
            continue
        for spec in one.put:
            removed.pop(name_of(spec), None)
            added[name_of(spec)] = spec
        for spec in one.taken:
            added.pop(name_of(spec), None)
            removed[name_of(spec)] = spec
    here = [one for one in known if one.now]
    batch_size = _batch_size_now(server, prepared)
    if batch_size is None:
        batch_size = next(
            (one.entry.batch_size for one in reversed(here) if one.entry.batch_size and not one.measured),
            None,
        )
    own = prepared.report.batch_size.value if prepared is not None else None
    return CodeChanges(
        uri=state.uri,
        batchSize=batch_size if batch_size != own else None,
        # A rewrite without a what-if has no effect to predict.
        whatifs=tuple(spec for name, spec in added.items() if name in whatifs()),
        removed=tuple(removed),
        changes=tuple(
            CodeChange(
                one.entry.label, one.entry.batch_size, one.entry.whatifs, one.entry.removes, one.measured
            )
            for one in here
        ),
        verify=_verifiable(known, prepared),
    )


def _verifiable(known: list[_Known], prepared: Prepared | None) -> Verifiable | None:
    """The changes that a verification would measure, and the profile from before the first of them."""
    if prepared is None:
        return None
    # If no measured change is still in the code, the latest profile contains none of them and is the baseline.
    first = next((index for index, one in enumerate(known) if one.now and one.measured), len(known))
    profile = known[first].entry.profile if first < len(known) else prepared.report.id
    put: dict[str, str] = {}
    taken: dict[str, str] = {}
    batch_size: int | None = None
    for index, one in enumerate(known):
        # A removed change is in the baseline only if it was made before the baseline was measured.
        if not one.now and not (one.measured and index < first):
            continue
        for spec in one.put:
            taken.pop(name_of(spec), None)
            put[name_of(spec)] = spec
        for spec in one.taken:
            if put.pop(name_of(spec), None) is None:
                taken[name_of(spec)] = spec
        if one.now and one.entry.batch_size is not None:
            batch_size = one.entry.batch_size
    if batch_size is None and not put and not taken:
        return None
    return Verifiable(profile, batch_size, tuple(put.values()), tuple(taken))


def _batch_size_now(server: SkylineServer, prepared: Prepared | None) -> int | None:
    """The current batch size in the code or in its settings file. None if it is not a number or is not found."""
    knob = prepared.report.batch_size.knob if prepared is not None else None
    lives = prepared.report.batch_size.lives if prepared is not None else None
    if lives is not None:
        text = server.texts.shown(lives.file)
        entry = entry_now(lives, text.text) if text is not None else None
        return entry.whole_number if entry is not None else None
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


_REST_S = 0.08
"""Length of the pause in typing after which the texts are compared, because a comparison takes time."""


class CodeNews:
    """Checks scripts after a change of their code or profile, once typing pauses."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._told: dict[str, protocol.CodeChanges] = {}

    def look(self, state: ScriptState) -> None:
        """Schedule a check of this script. Repeated calls until then cause one check."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if (waiting := self._waiting.pop(state.path, None)) is not None:
            waiting.cancel()
        self._waiting[state.path] = loop.call_later(_REST_S, self._look, state)

    def close(self) -> None:
        """Cancel all scheduled checks."""
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()

    def ask(self, state: ScriptState) -> protocol.CodeChanges:
        """The current changes, on request. The client is notified when they change again."""
        now = code_changes(self._server, state)
        self._told[state.path] = now
        return now

    def _look(self, state: ScriptState) -> None:
        self._waiting.pop(state.path, None)
        now = code_changes(self._server, state)
        if now != self._told.get(state.path, protocol.CodeChanges(state.uri, None, (), (), (), None)):
            self._told[state.path] = now
            self._server.protocol.notify(protocol.CODE_CHANGED, wire.send(now))
