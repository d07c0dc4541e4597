"""``skyline config``: the settings in force, with the origin of each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyline.cli.command_line import parser
from skyline.cli.streams import encoded, say, tell, write_data
from skyline.errors import ExitCode

if TYPE_CHECKING:
    from skyline.settings.source import Resolved

CONFIG_SCHEMA = "skyline.config/1"
_EXAMPLES = """\
  skyline config                        for the folder you are in
  skyline config train.py               for this script
  skyline config --set profile.steps=20 as if that were given on a command line
  skyline config --schema pyproject     the JSON schema of [tool.skyline]"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "config",
        "[options] [SCRIPT|FOLDER]",
        "Show the current settings, and the source of each. The command line overrides the\n"
        "editor, the editor overrides [tool.skyline] of the nearest pyproject.toml, and that\n"
        "overrides the default. Settings of an editor are not included.",
        _EXAMPLES,
    )
    command.add_argument("where", metavar="SCRIPT|FOLDER", nargs="?", default=".", help="whose settings")
    command.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="as on the command line"
    )
    command.add_argument(
        "--json", metavar="FILE", help="write them as JSON ('-': to stdout, without other output)"
    )
    command.add_argument(
        "--schema",
        choices=("editor", "pyproject"),
        help="print the JSON schema of the settings in an editor, or of [tool.skyline], instead",
    )
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(arguments)
    from skyline.settings.pyproject import project_settings
    from skyline.settings.source import from_words, resolve

    if options.schema:
        write_data("-", _schema(options.schema))
        return int(ExitCode.OK)
    where = Path(options.where).absolute()
    folder = where if where.is_dir() else where.parent
    resolved = resolve((from_words(options.set), project_settings(folder)))
    if options.json is not None:
        entries, problems = resolved.entries, resolved.problems
        document = {"schema": CONFIG_SCHEMA, "settings": entries, "problems": problems}
        write_data(options.json, encoded(document))
    if options.json != "-":
        _print(resolved)
    for problem in resolved.problems:
        say(f"skyline: {problem}")
    return int(ExitCode.USAGE if resolved.problems else ExitCode.OK)


def _schema(kind: str) -> bytes:
    import json

    from skyline.settings.keys import editor_schema, project_schema

    schema: dict[str, Any] = editor_schema() if kind == "editor" else project_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False).encode() + b"\n"


def _print(resolved: Resolved) -> None:
    import msgspec

    rows = [
        (entry.key, msgspec.json.encode(entry.value).decode(), entry.place or entry.origin)
        for entry in resolved.entries
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for key, value, origin in rows:
        tell(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}".rstrip())
