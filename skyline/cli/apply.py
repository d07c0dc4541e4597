"""``skyline apply``: make the change in the script, or remove it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

from skyline.cli.capture_options import add_options
from skyline.cli.command_line import parse_after_names, parse_question, parser
from skyline.cli.streams import say, tell, write_data
from skyline.cli.subject import require_script, subject_of
from skyline.errors import ExitCode, RewriteRefused, UsageError
from skyline.source.cells import cell_line, is_notebook
from skyline.source.project import check_inside
from skyline.source.text import SourceText, TextEdit
from skyline.whatif.question import BATCH_SIZE
from skyline.whole_file import all_or_none

_EXAMPLES = """\
  skyline apply train.py batch_size=64
  skyline apply train.py num_workers=2 fused_optimizer --diff
  skyline apply train.py --remove amp compile"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "apply",
        "[options] SCRIPT NAME[=VALUE]... [ARGS...]",
        "Rewrite the script. The latest profile shows where and how; it is profiled\n"
        "first if there is none. All changes are made, or none.",
        _EXAMPLES,
    )
    add_options(command)
    command.add_argument(
        "--fresh", action="store_true", help="profile the script again, even if its latest profile is valid"
    )
    command.add_argument(
        "--diff", action="store_true", help="print the change as a unified diff, and write nothing"
    )
    command.add_argument(
        "--remove", action="store_true", help="remove these what-ifs from the code instead of making them"
    )
    command.add_argument("script", metavar="SCRIPT")
    command.add_argument("names", metavar="NAME[=VALUE]", nargs="+")
    return command


def run(arguments: Sequence[str]) -> int:
    options, script_arguments = parse_after_names(arguments, make_parser())
    if options.remove:
        _check_removable(options.names)
    # A change that does not affect the iteration has no what-if.
    question = parse_question(options.names, rewrites=True)
    require_script(Path(options.script))
    if options.budget is None:
        # A rewrite needs the places of the lines, but no times of other batch sizes. The profile serves nothing else.
        options.places_only = options.no_save = True

    subject = subject_of(options.script, script_arguments, options)
    from skyline.analysis.analyse import analyse
    from skyline.report.cells import with_cells
    from skyline.rewrite.joint_edits import diff, plan
    from skyline.rewrite.removal import removals

    analysis = analyse(subject.profile)
    if options.remove:
        planned = removals(analysis, options.names, SourceText.read)
    else:
        planned = plan(analysis, question, SourceText.read)
    if planned.refused:
        first, *others = with_cells(planned.refused, subject.profile)
        lines = [f"{refused.name}: {refused.reason}" for refused in others] or ["Nothing was changed."]
        for refused in planned.refused:
            if refused.snippet:
                lines += [f"{refused.name}, to write by hand:", textwrap.indent(refused.snippet, "    ")]
        verb = "taken out" if options.remove else "applied"
        message = f"{first.name} was not {verb}: {first.reason}"
        raise RewriteRefused(message, hint="\n".join(lines), snippet=first.snippet)
    if not planned.edits:
        say("skyline: nothing to change: the script already has these changes")
        _say_notes(planned.notes)
        return int(ExitCode.OK)
    if not subject.measured_now:
        # The paths to write come from a file, which may be part of a folder that somebody else created.
        check_inside(Path(options.script), {edit.span.file for edit in planned.edits}, [Path.cwd()])
    if options.diff:
        write_data("-", diff(planned, SourceText.read).encode("utf-8"))
    else:
        write_edits(planned.edits)
    _say_notes(planned.notes)
    return int(ExitCode.OK)


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"skyline: {note}")


def _check_removable(names: Sequence[str]) -> None:
    """Refuse names with a value, and the batch size, because every script has one."""
    for name in names:
        if "=" in name:
            bare = name.partition("=")[0]
            raise UsageError(f"--remove takes names without values: {name}", hint=f"Write: --remove {bare}")
        if name == BATCH_SIZE:
            raise UsageError("A batch size cannot be removed", hint="Write another one: batch_size=N.")


def write_edits(edits: tuple[TextEdit, ...]) -> None:
    """Write edits of the current files: all of them, or none if a file cannot be written."""
    texts = [SourceText.read(path) for path in dict.fromkeys(edit.span.file for edit in edits)]
    changed = [text.apply(edit for edit in edits if edit.span.file == text.path) for text in texts]
    all_or_none((after.write_bytes, before.write_bytes) for before, after in zip(texts, changed, strict=True))
    for edit in sorted(edits, key=lambda edit: (edit.span.file, edit.span.line)):
        old, new = edit.old_text.strip(), edit.new_text.strip()
        if not old and not new:
            continue  # blanks: lines that moved
        words = f"{old} -> {new}" if old and new else f"added {new}" if new else f"removed {old}"
        tell(f"{_place(edit, texts)}: {' '.join(words.split())}")


def _place(edit: TextEdit, texts: list[SourceText]) -> str:
    text = next(text.text for text in texts if text.path == edit.span.file)
    # An edit directly before the first line of a cell counts as an edit of that line.
    cell = cell_line(text, edit.span.line) or cell_line(text, edit.span.line + 1)
    where = f" {cell}" if is_notebook(edit.span.file) and cell else f":{edit.span.line}"
    return f"{edit.span.file}{where}"
