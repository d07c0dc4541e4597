"""Plans the edits of a change to the current code before anything is sent to the client."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.errors import RewriteRefused, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.report.protocol import Refusal
from skyline.rewrite.joint_edits import RewritePlan, diff, plan
from skyline.rewrite.removal import removals
from skyline.source.project import check_inside
from skyline.source.settings_file import is_settings_file
from skyline.source.text import SourceText, TextEdit
from skyline.source.written_change import WrittenChange
from skyline.whatif.question import Choice, Question
from skyline_lsp.journal import JournalEntry, name_of

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import ScriptState

NOT_IN_CODE = "is not in the code"


@dataclass(slots=True)
class _EditedFiles:
    """The files of a script as the client shows them, and after the edits so far."""

    server: SkylineServer
    script: str = ""
    """The script whose profile the edits come from, used to check their paths. Empty for edits of the journal."""
    shown: dict[str, SourceText] = field(default_factory=dict[str, SourceText])
    now: dict[str, SourceText] = field(default_factory=dict[str, SourceText])

    def read(self, path: str) -> SourceText:
        """The current text of a file. Raises UsageError if it cannot be read.

        Raises RewriteRefused for a settings file that the editor does not send, because its buffer may differ from
        the disk.
        """
        if is_settings_file(path) and not self.server.settings_files.are_known(path):
            name = os.path.basename(path)
            raise RewriteRefused(
                f"The number is in {name}, which this editor does not send to Skyline: change it there, or with "
                "skyline apply",
                file=path,
            )
        if path not in self.now:
            text = self.server.texts.shown(path)
            if text is None:
                raise UsageError(f"{path} can no longer be read", file=path, hint="Profile the script again.")
            self.shown[path] = self.now[path] = text
        return self.now[path]

    def apply(self, edits: Iterable[TextEdit]) -> tuple[WrittenChange, ...]:
        """Apply edits to the files. Returns the written changes by file."""
        edits = tuple(edits)
        if self.script:
            folder = Path(self.server.folder_of(self.script))
            check_inside(Path(self.script), {edit.span.file for edit in edits}, [folder])
        written: list[WrittenChange] = []
        for path in dict.fromkeys(edit.span.file for edit in edits):
            own = tuple(edit for edit in edits if edit.span.file == path)
            text = self.read(path)
            written.append(WrittenChange.of(text, own))
            self.now[path] = text.apply(own)
        return tuple(written)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The edits that turn ``before``, the texts that the client shows, into ``after``, and the refused parts.

    ``entries`` are the new journal entries. There are none for a change that only reverts another.
    """

    before: dict[str, SourceText]
    after: dict[str, SourceText]
    edits: tuple[TextEdit, ...]
    refused: tuple[Refusal, ...] = ()
    entries: tuple[JournalEntry, ...] = ()

    @property
    def left_out(self) -> str:
        """The refused parts and their reasons in words."""
        return "; ".join(f"{refused.name}: {refused.reason}" for refused in self.refused)

    def diff(self) -> str:
        """The edits as a unified diff."""
        return diff(RewritePlan(self.edits), self.before.__getitem__)


def planned_question(server: SkylineServer, state: ScriptState, asked: Question) -> PlannedChange:
    """The change that writes the what-ifs of a question into the code.

    A what-if that is in the code with another value is removed first. One that was removed is restored as it was.
    Raises SkylineError if there is no profile, and UsageError if a file cannot be read.
    """
    files, profile = _EditedFiles(server, state.path), state.profiled().report.id
    back: list[str] = []
    for choice in asked.choices:
        back += _make_room(server, state, files, choice)
    left = replace(asked, choices=tuple(one for one in asked.choices if one.name not in back))
    return _written(state, files, left, profile, taken_out=bool(files.now))


def planned_removal(server: SkylineServer, state: ScriptState, name: str) -> PlannedChange:
    """The change that removes one what-if: reverses the change that added it, or rewrites the code without it.

    Raises SkylineError if there is no profile, and UsageError if the what-if is not in the code.
    """
    prepared, files = state.profiled(), _EditedFiles(server, state.path)
    read = server.texts.shown
    found = [entry for entry in server.journal.in_code(state.path, read) if name in entry.names()]
    edits = found[-1].taken_out(read) if found else None
    if found and edits is not None:
        files.apply(edits)
        rest = [Choice.parse(one) for one in found[-1].whatifs if name_of(one) != name]
        return _written(
            state, files, Question(found[-1].batch_size, tuple(rest)), found[-1].profile, taken_out=True
        )
    planned = removals(prepared.analysis, (name,), files.read)
    refused = _refusals(planned)
    if not planned.edits:
        if not refused:
            raise UsageError(f"{name} {NOT_IN_CODE}")
        return PlannedChange(files.shown, files.now, (), refused)
    written = files.apply(planned.edits)
    known = next((one for one in prepared.whatifs.estimates if one.name == name), None)
    spec = f"{name}={known.present}" if known is not None and known.present else name
    entry = JournalEntry(f"without {name}", prepared.report.id, written, removes=(spec,))
    return PlannedChange(files.shown, files.now, planned.edits, refused, (entry,))


def planned_return(server: SkylineServer, entry: JournalEntry) -> PlannedChange | None:
    """The change that removes a journal entry from the code. None if the code at its place was edited."""
    files = _EditedFiles(server)
    edits = entry.taken_out(server.texts.shown)
    if edits is None:
        return None
    files.apply(edits)
    return PlannedChange(files.shown, files.now, edits)


def texts_without(server: SkylineServer, state: ScriptState) -> dict[str, SourceText]:
    """The files that journal entries changed, without these changes: for a diff against the current code."""
    files = _EditedFiles(server)
    for entry in reversed(server.journal.in_code(state.path, server.texts.shown)):
        for file in entry.files:
            files.read(file.path)
        edits = entry.taken_out(files.now.get)
        if edits is not None:
            files.apply(edits)
    return files.now


def _make_room(server: SkylineServer, state: ScriptState, files: _EditedFiles, choice: Choice) -> list[str]:
    """Remove earlier changes that conflict with a what-if.

    Returns its name if the removal alone already puts the what-if into the code.
    """
    back: list[str] = []
    for entry in reversed(server.journal.in_code(state.path, server.texts.shown)):
        removed = {name_of(one): one for one in entry.removes}
        other = [one for one in entry.whatifs if name_of(one) == choice.name and one != str(choice)]
        if choice.name not in removed and not other:
            continue
        for file in entry.files:
            files.read(file.path)
        edits = entry.taken_out(files.now.get)
        if edits is None:
            continue
        files.apply(edits)
        if removed.get(choice.name) in (choice.name, str(choice)) or (removed and not choice.value):
            back.append(choice.name)
    return back


def _written(
    state: ScriptState, files: _EditedFiles, asked: Question, profile: str, *, taken_out: bool
) -> PlannedChange:
    nothing = asked.batch_size is None and not asked.choices
    planned = RewritePlan(()) if nothing else plan(state.profiled().analysis, asked, files.read)
    written = files.apply(planned.edits)
    refused = _refusals(planned)
    left_out = {each.name for each in refused}
    entry = JournalEntry(
        words(asked),
        profile,
        written,
        None if "batch_size" in left_out else asked.batch_size,
        tuple(str(choice) for choice in asked.choices if choice.name not in left_out),
    )
    edits = planned.edits
    if taken_out:
        # The planned edits refer to an intermediate text that the client does not have: replace them by one
        # edit of each shown text.
        edits = tuple(
            files.shown[path].difference(text.text)
            for path, text in files.now.items()
            if text.text != files.shown[path].text
        )
    return PlannedChange(files.shown, files.now, edits, refused, (entry,) if written else ())


def words(asked: Question) -> str:
    """A question as a short label."""
    parts = [f"batch size {asked.batch_size}"] if asked.batch_size is not None else []
    return ", ".join((*parts, *map(str, asked.choices)))


def check_current(server: SkylineServer, files: Iterable[str]) -> None:
    """Raise UsageError if another program wrote a file and the client still has the older text."""
    for path in files:
        if server.texts.outdated(path):
            raise UsageError(
                f"{os.path.basename(path)} was changed on disk by another program since the editor read it",
                file=path,
                hint="Reload it in the editor, or save it there, then make the change.",
            )


def _refusals(planned: RewritePlan) -> tuple[Refusal, ...]:
    return tuple(Refusal(refused.name, refused.reason, refused.snippet) for refused in planned.refused)
