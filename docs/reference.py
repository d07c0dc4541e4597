"""The reference pages of the site, generated from the code: settings, commands, what-ifs, findings, rules, protocol.

A page names a section by a line of its own: ``<!-- reference: settings -->``.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from unittest.mock import patch

import measured
import msgspec

from skyline.cli import main
from skyline.findings.registry import job_rules, rules
from skyline.settings.keys import keys
from skyline.watch.registry import known_rules
from skyline.whatif.registry import whatifs
from skyline_lsp import typescript
from skyline_lsp.typescript import METHODS

_MARKER = re.compile(r"^<!-- reference: (\w+) -->$", flags=re.MULTILINE)


def filled(page: str) -> str:
    """The page with each marker replaced by its section; raises ``KeyError`` for an unknown section."""
    return _MARKER.sub(lambda marker: SECTIONS[marker[1]](), page)


def settings() -> str:
    """Each key with its default and its meaning."""
    return _table(
        ("key", "default", "meaning"),
        ((f"`{key.name}`", _default(key.default), str(key.meta.description)) for key in keys()),
    )


def commands() -> str:
    """Each command of ``skyline`` with its help text."""
    parts: list[str] = []
    for name, summary in main.COMMANDS.items():
        parts += [f"## `skyline {name}`", f"{summary[0].upper()}{summary[1:]}.", _fenced("text", _help(name))]
    return "\n\n".join(parts)


def catalogue() -> str:
    """Each what-if of Skyline with its question and its effect on training."""
    return _table(
        ("what-if", "question", "excludes", "effect on training"),
        (
            (
                f"[`{name}`](whatifs/{name}.md)",
                f"{_summary(sys.modules[type(whatif).__module__]).rstrip('.')}?",
                ", ".join(f"`{other}`" for other in whatif.excludes),
                f"`{whatif.semantics.value}`",
            )
            for name, whatif in whatifs().items()
            if type(whatif).__module__.startswith("skyline.")
        ),
    )


def whatif_accuracy() -> str:
    """The measured error of what-ifs, from the result files."""
    return _accuracy(measured.whatif_rows())


def setting_places() -> str:
    """Where settings are found, rewritten and undone, from the result file."""
    return _table(("place", "batch size", "workers", "accumulation"), measured.setting_rows())


def curve_accuracy() -> str:
    """The measured error of batch sizes, from the result files."""
    return _accuracy(measured.curve_rows())


def thresholds() -> str:
    """Each rule with the constants of its module that have a documented meaning."""
    parts: list[str] = []
    for rule in (*rules(), *job_rules()):
        module = sys.modules[type(rule).__module__]
        _, _, title = _summary(module).partition(": ")
        rows = list(_constants(module))
        parts.append(f"**[{rule.code}](findings/{rule.code}.md)**: {title}")
        if rows:
            parts.append(_table(("constant", "value", "meaning and source"), rows))
    return "\n\n".join(parts)


def watch_rules() -> str:
    """Each rule of ``skyline watch`` with its comparison and its thresholds."""
    rows: list[tuple[str, ...]] = []
    for name, rule in known_rules().classes.items():
        thresholds = ", ".join(f"`{one.name}` {one.default:g}" for one in dataclasses.fields(rule))  # type: ignore[arg-type]
        meaning = _one_line(inspect.getdoc(rule) or "")
        rows.append((f"`{name}`", _summary(sys.modules[rule.__module__]), meaning, thresholds))
    return _table(("rule", "problem", "comparison", "thresholds"), rows)


def protocol() -> str:
    """Each message with the types of its contents, then the declaration of each type."""
    kinds = {
        "request": "client → server, answered",
        "command": "client → server, by `workspace/executeCommand`",
        "event": "server → client",
        "notification": "client → server",
        "options": "client → server, as `initializationOptions`",
    }
    declared = typescript.Declarations()
    rows = [
        (
            f"`{method.name}`",
            kinds[method.kind],
            "" if method.sent is None else _code(declared.name(method.sent, sent=method.kind != "event")),
            "" if method.answer is None else _code(declared.name(method.answer, sent=False)),
        )
        for method in METHODS
    ]
    table = _table(("message", "direction", "content", "answer"), rows)
    return f"{table}\n\n## Types\n\n{_fenced('typescript', chr(10).join(declared))}"


SECTIONS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "commands": commands,
    "whatifs": catalogue,
    "thresholds": thresholds,
    "watch_rules": watch_rules,
    "protocol": protocol,
    "whatif_accuracy": whatif_accuracy,
    "curve_accuracy": curve_accuracy,
    "setting_places": setting_places,
}


def _accuracy(rows: Iterator[tuple[str, ...]]) -> str:
    return _table(
        ("measured on", "number", "median error", "90th percentile", "worst", "inside the predicted range"),
        rows,
    )


def _help(name: str) -> str:
    printed = io.StringIO()
    with (
        patch.dict("os.environ", {"COLUMNS": "80"}),
        patch.object(sys, "argv", ["skyline"]),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        code = main.main([name, "--help"])
    if code:
        raise RuntimeError(f"skyline {name} --help: exit code {code}: {printed.getvalue()}")
    return printed.getvalue().rstrip()


def _constants(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Module-level numbers that a docstring follows."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, after in pairwise(body):
        match statement, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                value = getattr(import_module(module.__name__), name)
                if isinstance(value, int | float):
                    yield f"`{name.strip('_').lower()}`", f"{value:g}", _one_line(meaning)


def _summary(module: ModuleType) -> str:
    return _one_line((module.__doc__ or "").partition("\n\n")[0])


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _default(value: object) -> str:
    decoded = msgspec.json.decode(msgspec.json.encode(value))
    return "none" if decoded is None else f"`{json.dumps(decoded)}`"


def _code(text: str) -> str:
    return f"`{text}`"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _table(titles: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
