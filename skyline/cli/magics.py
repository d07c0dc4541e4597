"""``%load_ext skyline``: ``%%skyline`` profiles a cell that trains, ``%skyline whatif`` asks about it."""

from __future__ import annotations

import html
import io
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyline.cli.capture_options import add_options, run_capture
from skyline.cli.command_line import parse_question, parser
from skyline.cli.streams import say, tell
from skyline.errors import ScriptFailed, SkylineError, UsageError
from skyline.foreign_text import clean_console
from skyline.source.cells import cell_lines, script_of
from skyline.trace.store import FOLDER

if TYPE_CHECKING:
    from skyline.analysis.analyse import Analysis
    from skyline.report.document import Document

_FILE = "session.ipynb"
_OWN = ("%%skyline", "%skyline", "%load_ext skyline", "%reload_ext skyline")
_HEIGHT_PX = 620
_COLUMNS = 100
_HELP = """\
%%skyline [options]              profile this cell, which trains, after the earlier cells of the session
%skyline whatif [NAME[=VALUE]…]  predict changes: all of them, or these one by one and together
%skyline apply NAME[=VALUE]…     show the cells with these changes, and put a changed cell into the next input
%skyline show                    the profile again
Options are those of `skyline profile`; %%skyline --help lists them."""


@dataclass(frozen=True, slots=True, repr=False)
class Shown:
    """A page, shown as HTML in a notebook and as plain text in a terminal."""

    text: str
    page: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        # A separate frame, so that the styles of page and notebook do not mix.
        style = f"width: 100%; height: {_HEIGHT_PX}px; border: 0"
        return f'<iframe srcdoc="{html.escape(self.page)}" style="{style}"></iframe>'


def register(shell: Any) -> None:
    """Add the magics to an IPython shell."""
    magics = SkylineMagics(shell)
    shell.register_magic_function(magics.skyline, "line_cell", "skyline")
    shell.events.register("pre_run_cell", magics.runs)
    shell.events.register("post_run_cell", magics.ran)


class SkylineMagics:
    """The magics of one session, with its last profile."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._analysis: Analysis | None = None
        self._cells: tuple[str, ...] = ()
        self._failed: set[int] = set()
        self._current = ""
        self._latest: dict[str, int] = {}
        """The last input of each cell of the notebook: earlier ones are older versions of the same cell."""
        self._cell_of: dict[int, str] = {}

    def runs(self, info: Any) -> None:
        """Record which cell of the notebook starts to run. A terminal has no cells."""
        self._current = getattr(info, "cell_id", None) or ""

    def ran(self, result: Any) -> None:
        """Record the result of an input."""
        number, cell = result.execution_count, getattr(result.info, "cell_id", None)
        if number is None:
            return
        if not result.success:
            self._failed.add(number)
        if cell:
            self._latest[cell] = number
            self._cell_of[number] = cell

    def skyline(self, line: str, cell: str | None = None) -> Shown | None:
        """Profile a cell, or answer a question about the last profile. See ``_HELP``."""
        try:
            if cell is not None:
                return self._profile(line, cell)
            words = shlex.split(line)
            commands: dict[str, Callable[[Sequence[str]], Shown | None]] = {
                "whatif": self._whatif,
                "apply": self._apply,
                "show": self._show,
            }
            if not words or words[0] not in commands:
                tell(_HELP)
                return None
            return commands[words[0]](words[1:])
        except SystemExit:
            return None  # argparse has said why
        except ScriptFailed as error:
            from skyline.report.cells import CellPlaces

            places = CellPlaces({_FILE: cell_lines(script_of(self._cells))})
            if error.traceback:
                say(places.told(error.traceback).rstrip())
            if not (error.traceback and error.is_told):
                say(places.told(f"skyline: {error.message}"))
            say(error.hint, quiet=not error.hint)
        except SkylineError as error:
            say(f"skyline: {error.message}")
            say(error.hint, quiet=not error.hint)
        return None

    def _profile(self, line: str, cell: str) -> Shown:
        command = parser("profile", "[options]", "Profile this cell after the earlier cells of the session.")
        command.prog = "%%skyline"
        command.usage = "%%%%skyline [options]"
        add_options(command)
        options = command.parse_args(shlex.split(line))
        options.interpreter = options.interpreter or sys.executable
        self._cells = self._session(cell)
        kept = sum(map(bool, self._cells[:-1]))
        say(
            f"skyline: running this cell and {kept} earlier inputs of this session in another process; "
            "the session itself does not change",
            quiet=options.quiet,
        )
        from skyline.analysis.analyse import analyse

        file = Path.cwd() / FOLDER / _FILE
        _write(file, self._cells)
        options.no_save = True
        profile = run_capture(
            file,
            (),
            options,
            text=script_of(self._cells),
            working_directory=Path.cwd(),
        )
        self._analysis = analyse(profile)
        return self._show(())

    def _session(self, cell: str) -> tuple[str, ...]:
        """The inputs of the session up to this cell. Those that must not run again are empty, to keep the numbering."""
        inputs: list[str] = list(self._shell.history_manager.input_hist_raw)
        number = len(inputs) - 1
        found = [self._earlier(at, inputs[at], cell) for at in range(1, number)]
        return (*found, f"%%skyline\n{cell}")

    def _earlier(self, number: int, text: str, cell: str) -> str:
        place = self._cell_of.get(number, "")
        older = place != "" and (place == self._current or self._latest[place] != number)
        ours = text.lstrip().startswith(_OWN)
        same = text.strip() == cell.strip()
        return "" if older or ours or same or number in self._failed else text

    def _show(self, words: Sequence[str]) -> Shown:
        analysis = self._profiled(words)
        from skyline.report import html as pages
        from skyline.report.build import profile_report, whatif_report
        from skyline.report.pages.profile import profile_page

        report, answers = profile_report(analysis), whatif_report(analysis)
        page = profile_page(report, answers, base=Path.cwd())
        return Shown(_plain(page), pages.render(report, answers, analysis.profile.sources))

    def _whatif(self, words: Sequence[str]) -> Shown:
        analysis = self._profiled(())
        from skyline.report import html as pages
        from skyline.report.build import head_report, whatif_report
        from skyline.report.pages.whatifs import whatifs_page

        question = parse_question(words) if words else None
        answers = whatif_report(analysis, question)
        page = whatifs_page(answers, script="this cell", detail=question is not None)
        return Shown(_plain(page), pages.render_answers(page, head_report(analysis), answers))

    def _apply(self, words: Sequence[str]) -> Shown | None:
        analysis = self._profiled(())
        if not words:
            raise UsageError("Name a change to make, for example: %skyline apply batch_size=64")
        from skyline.rewrite.context import as_profiled
        from skyline.rewrite.joint_edits import diff, plan
        from skyline.source.cells import cells_of

        read = as_profiled(analysis.profile)
        planned = plan(analysis, parse_question(words), read)
        for refused in planned.refused:
            raise UsageError(f"{refused.name} cannot be made: {refused.reason}", hint=refused.snippet)
        tell(diff(planned, read) or "This code already has these changes.")
        before = read(analysis.profile.script)
        made = before.apply(edit for edit in planned.edits if Path(edit.span.file).name == _FILE)
        pairs = zip(cells_of(before.text), cells_of(made.text), strict=True)
        changed = [new for old, new in pairs if old != new]
        if changed:
            self._shell.set_next_input(changed[-1])
        return None

    def _profiled(self, words: Sequence[str]) -> Analysis:
        if words:
            raise UsageError(f"%skyline takes no arguments here ({' '.join(words)})")
        if self._analysis is None:
            raise UsageError("No cell is profiled yet", hint="Put %%skyline before a cell that trains.")
        return self._analysis


def _plain(page: Document) -> str:
    from skyline.report.terminal import print_document

    stream = io.StringIO()
    print_document(page, clean_console(file=stream, highlight=False, width=_COLUMNS))
    return stream.getvalue()


def _write(file: Path, cells: Sequence[str]) -> None:
    """Write the session as a notebook, because the run needs a file for its lines."""
    entries: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": cell,
        }
        for number, cell in enumerate(cells, 1)
    ]
    content: dict[str, Any] = {"cells": entries, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
