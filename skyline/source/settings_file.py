"""Settings files (YAML, JSON, TOML, INI, Python): their entries with lines and keys, and the batch size in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import cast

from skyline.errors import SkylineError
from skyline.source.batch_names import batch_rank, is_evaluation, is_training
from skyline.source.knob import SettingPlace
from skyline.source.text import SourceText

_TOKEN = re.compile(
    r"""(?x) "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | //[^\n]* | /\*.*?\*/ | (?<=\s)\#[^\n]* | [{}\[\],:]
    | [^\s{}\[\],:"'] [^{}\[\],:"'\n]* """,
    re.DOTALL,
)
_YAML_ENTRY = re.compile(
    r"""(?x) ^(?P<lead>\ *(?:-\ +)*) (?P<key>"[^"]*" | '[^']*' | [^\s\#:&*!?{}\[\],"'-][^:\#{}\[\],"']*?) \s* :
    (?:[ \t]+(?P<value>.*?))? [ \t]*$"""
)
_YAML_BEFORE_VALUE = re.compile(r"(?:[&!]\S*\s+)*")
_COMMENT = re.compile(r"(?:^|\s)[#;].*$")
_TOML_COMMENT = re.compile(r"\s*#[^\"']*$")
_TOML_ENTRY = re.compile(r"^\s*(?P<key>[\w.\"'-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=\s*(?P<value>\S.*?)\s*$")
_INLINE_ENTRY = re.compile(r"(?P<key>[\w.\"'-]+)\s*=\s*(?P<value>[\w+-]+)")
_INI_ENTRY = re.compile(r"^\s*(?:export\s+)?(?P<key>[\w. -]+?)\s*[=:]\s*(?P<value>\S.*?)\s*$")
_SECTION = re.compile(r"^\s*\[{1,2}\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?$")
_INTEGER = re.compile(r"[+]?(?:0[xX][0-9a-fA-F_]+|\d[\d_]*)")


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One value: ``line`` from 1, ``column`` in characters from 0, ``path`` the sequence of its keys."""

    line: int
    column: int
    path: tuple[str, ...]
    text: str

    @property
    def key(self) -> str:
        """The keys joined by dots."""
        return ".".join(self.path)

    @property
    def whole_number(self) -> int | None:
        """The value if it is a whole number, quoted or not."""
        bare = self.text.strip("\"'").strip()
        return (
            int(bare.replace("_", ""), 0 if bare[:2].lower() == "0x" else 10) if _is_integer(bare) else None
        )


def entries(path: str, text: str) -> list[SettingEntry]:
    """All values of a file in textual order; empty if the file does not match its format."""
    reader = _READERS.get(_suffix(path))
    try:
        return list(reader(text)) if reader else []
    except (ValueError, SyntaxError, RecursionError):
        return []


def batch_size_places(files: Sequence[tuple[str, str]], value: int) -> list[SettingPlace]:
    """The places in settings files that hold this batch size, best first. ``files`` are (path, text) in opening order.

    A later file is assumed to override an earlier one. Evaluation settings are excluded.
    """
    found: list[tuple[tuple[int, bool, int, int], SettingPlace]] = []
    for number, (path, text) in enumerate(files):
        for entry in entries(path, text):
            rank = _rank(entry.path)
            if rank is None or entry.whole_number != value or any(map(is_evaluation, entry.path)):
                continue
            trains = any(map(is_training, entry.path))
            place = SettingPlace(path, entry.line, entry.key, entry.text)
            found.append(((rank, not trains, -number, entry.line), place))
    return [place for _, place in sorted(found, key=lambda each: each[0])]


def with_setting(place: SettingPlace, text: str, value: int) -> str | None:
    """The text of the file with another value at a place; None if the place no longer holds its value."""
    for entry in entries(place.file, text):
        if (entry.line, entry.key, entry.text) == (place.line, place.key, place.text):
            start = _start_of_line(text, entry.line) + entry.column
            quote = entry.text[0] if entry.text[0] in "\"'" else ""
            return f"{text[:start]}{quote}{value}{quote}{text[start + len(entry.text) :]}"
    return None


def still_holds(place: SettingPlace) -> bool:
    """True if the file on disk still holds the value of a place, on any line."""
    try:
        text = SourceText.read(place.file).text
    except SkylineError:
        return False
    return any((entry.key, entry.text) == (place.key, place.text) for entry in entries(place.file, text))


def _rank(path: tuple[str, ...]) -> int | None:
    """Strength of keys as an indication of the batch size, as in ``batch_rank``; ``batch: {size: 16}`` is one name."""
    if not path:
        return None
    rank = batch_rank(path[-1])
    if rank is None and path[-1].lower() == "size" and len(path) > 1:
        rank = batch_rank(f"{path[-2]}_size")
    return rank


def _is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None


def _suffix(path: str) -> str:
    name = PurePath(path).name.lower()
    # ``.env`` and ``.env.local`` have no suffix that gives their format.
    return ".env" if name.startswith(".env") else PurePath(name).suffix


def _start_of_line(text: str, line: int) -> int:
    starts = [0, *(match.end() for match in re.finditer(r"\n", text))]
    return starts[line - 1]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text.strip()


def _flow(text: str, start: int = 0, outer: tuple[str, ...] = ()) -> Iterator[SettingEntry]:
    """Values of ``{…}`` and ``[…]`` in JSON and YAML, from ``start`` to the closing bracket."""
    keys: list[str] = []
    kinds: list[str] = []
    for match in _TOKEN.finditer(text, start):
        token = match.group().rstrip()
        if token.startswith(("//", "/*", "#")) or token == ":":
            continue
        if token in ("{", "["):
            kinds.append(token)
            keys.append("")
        elif token in ("}", "]"):
            if kinds:
                kinds.pop()
                keys.pop()
            if not kinds:
                return
        elif token == ",":
            if keys:
                keys[-1] = ""
        elif kinds and kinds[-1] == "{" and not keys[-1]:
            keys[-1] = _unquoted(token)
        else:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - (text.rfind("\n", 0, match.start()) + 1)
            yield SettingEntry(line, column, (*outer, *(key for key in keys if key)), token)


def _json(text: str) -> Iterator[SettingEntry]:
    yield from _flow(text)


def _yaml(text: str) -> Iterator[SettingEntry]:
    """A scan of ``key: value`` lines by indentation: the subset of YAML in which settings are written."""
    if text.lstrip().startswith("{"):
        yield from _flow(text)
        return
    open_keys: list[tuple[int, str]] = []
    scalar_indent: int | None = None
    offset = 0
    for number, line in enumerate(text.split("\n"), 1):
        start, offset = offset, offset + len(line) + 1
        indent = len(line) - len(line.lstrip(" "))
        if scalar_indent is not None:
            if not line.strip() or indent > scalar_indent:
                continue  # inside a multi-line string
            scalar_indent = None
        match = _YAML_ENTRY.match(line.rstrip("\r"))
        if match is None:
            continue
        depth = len(match["lead"])
        while open_keys and open_keys[-1][0] >= depth:
            open_keys.pop()
        path = (*(key for _, key in open_keys), _unquoted(match["key"]))
        value = match["value"] or ""
        before = _YAML_BEFORE_VALUE.match(value)
        skipped = before.end() if before else 0
        value = _COMMENT.sub("", value[skipped:]).rstrip()
        column = match.start("value") + skipped
        if value.startswith("{"):
            yield from _flow(text, start + column, path)
        elif value[:1] in ("|", ">"):
            scalar_indent = indent
        elif value:
            yield SettingEntry(number, column, path, value)
        else:
            open_keys.append((depth, _unquoted(match["key"])))


def _toml(text: str) -> Iterator[SettingEntry]:
    """A scan of lines; entries that Python's TOML reader does not find at the same keys are omitted."""
    from skyline.toml import tomllib

    whole = tomllib.loads(text)
    for entry in _toml_lines(text):
        if entry.whole_number is None or entry.whole_number in _at(whole, entry.path):
            yield entry


def _toml_lines(text: str) -> Iterator[SettingEntry]:
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _SECTION.match(line):
            section = tuple(_unquoted(part) for part in header["name"].split("."))
            continue
        match = _TOML_ENTRY.match(_TOML_COMMENT.sub("", line))
        if match is None:
            continue
        path = (*section, *(_unquoted(part.strip()) for part in match["key"].split(".")))
        if not match["value"].startswith("{"):
            yield SettingEntry(number, match.start("value"), path, match["value"])
            continue
        for inner in _INLINE_ENTRY.finditer(line, match.start("value")):
            yield SettingEntry(number, inner.start("value"), (*path, _unquoted(inner["key"])), inner["value"])


def _at(tree: object, path: tuple[str, ...]) -> list[object]:
    """The values at a path of keys; tables in a list are searched one by one."""
    if isinstance(tree, list):
        return [found for each in cast("list[object]", tree) for found in _at(each, path)]
    if not path:
        return [tree]
    table = cast("dict[str, object]", tree) if isinstance(tree, dict) else {}
    return _at(table[path[0]], path[1:]) if path[0] in table else []


def _ini(text: str) -> Iterator[SettingEntry]:
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _SECTION.match(line):
            section = (header["name"],)
        elif not line.lstrip().startswith(("#", ";")) and (match := _INI_ENTRY.match(_COMMENT.sub("", line))):
            yield SettingEntry(number, match.start("value"), (*section, match["key"]), match["value"])


def _python(text: str) -> Iterator[SettingEntry]:
    """Whole numbers that are assigned, passed by name or stored under a key."""
    lines = text.split("\n")

    def visit(node: ast.AST, path: tuple[str, ...]) -> Iterator[SettingEntry]:
        match node:
            case ast.Constant(value=int()) if path and not isinstance(node.value, bool):
                column = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
                written = ast.get_source_segment(text, node) or str(node.value)
                yield SettingEntry(node.lineno, column, path, written)
            case ast.ClassDef(name=name):
                for child in node.body:
                    yield from visit(child, (*path, name))
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                yield from visit(value, (*path, name))
            case ast.AnnAssign(
                target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.expr() as value
            ):
                yield from visit(value, (*path, name))
            case ast.keyword(arg=str() as name, value=value):
                yield from visit(value, (*path, name))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield from visit(value, (*path, key.value))
            case ast.Call():
                for keyword in node.keywords:
                    yield from visit(keyword, path)
            case ast.Module() | ast.If() | ast.FunctionDef() | ast.Expr() | ast.Return():
                for child in ast.iter_child_nodes(node):
                    yield from visit(child, path)
            case _:
                return

    yield from visit(ast.parse(text), ())


_READERS: dict[str, Callable[[str], Iterator[SettingEntry]]] = {
    **dict.fromkeys((".yaml", ".yml"), _yaml),
    **dict.fromkeys((".json", ".json5", ".jsonc"), _json),
    ".toml": _toml,
    **dict.fromkeys((".ini", ".cfg", ".conf", ".properties", ".env"), _ini),
    ".py": _python,
}
