"""Settings files as values with their lines, columns and keys, one reader for each format."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, cast

from skyline.lazy_dataclass import dataclass

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
    def bare(self) -> str:
        """The value without quotation marks."""
        return self.text.strip("\"'").strip()

    @property
    def whole_number(self) -> int | None:
        """The value if it is a whole number, quoted or not."""
        bare = self.bare
        if not _INTEGER.fullmatch(bare):
            return None
        return int(bare.replace("_", ""), 0 if bare[:2].lower() == "0x" else 10)


def unquoted(text: str) -> str:
    """A key without its quotation marks."""
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text.strip()


_LARGEST = 200_000
"""The limit in characters: settings files are smaller, and parsing this much takes about two seconds."""
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_MERGE = "<<"
_DEEPEST = 40


def read_yaml(text: str) -> Iterator[SettingEntry]:
    """YAML: scalars in textual order, of all documents.

    A value behind an alias has the place of its anchor, and the keys of both.
    """
    if len(text) > _LARGEST:
        return
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    parser: Any = YAML(typ="safe", pure=True)
    try:
        documents: list[Any] = list(parser.compose_all(text))
    except YAMLError as error:
        raise ValueError(f"not YAML: {error}") from error
    found = [entry for document in documents for entry in _scalars(document, (), text, 0)]
    yield from sorted(found, key=lambda entry: (entry.line, entry.column))


def _scalars(node: Any, path: tuple[str, ...], text: str, depth: int) -> Iterator[SettingEntry]:
    kind = getattr(node, "id", "")
    if depth > _DEEPEST:
        return
    if kind == "mapping":
        for key, value in node.value:
            name = str(key.value) if getattr(key, "id", "") == "scalar" else ""
            inner = path if name == _MERGE or not name else (*path, name)
            yield from _scalars(value, inner, text, depth + 1)
    elif kind == "sequence":
        for value in node.value:
            yield from _scalars(value, path, text, depth + 1)
    elif kind == "scalar" and node.style not in ("|", ">"):
        start, end = node.start_mark.index, node.end_mark.index
        properties = _PROPERTIES.match(text, start, end)
        start = properties.end() if properties else start
        written = text[start:end]
        if written and "\n" not in written:
            column = start - (text.rfind("\n", 0, start) + 1)
            yield SettingEntry(text.count("\n", 0, start) + 1, column, path, written)


_TOKEN = re.compile(
    r"""(?x) "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | //[^\n]* | /\*.*?\*/ | (?<=\s)\#[^\n]* | [{}\[\],:]
    | [^\s{}\[\],:"'] [^{}\[\],:"'\n]* """,
    re.DOTALL,
)


def read_json(text: str) -> Iterator[SettingEntry]:
    """JSON, JSON5 and JSONC: values of ``{…}`` and ``[…]`` up to the closing bracket, token by token."""
    keys: list[str] = []
    kinds: list[str] = []
    for match in _TOKEN.finditer(text):
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
            keys[-1] = unquoted(token)
        else:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - (text.rfind("\n", 0, match.start()) + 1)
            yield SettingEntry(line, column, tuple(key for key in keys if key), token)


_SECTION = re.compile(r"^\s*\[{1,2}\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?$")
_TOML_COMMENT = re.compile(r"\s*#[^\"']*$")
_TOML_ENTRY = re.compile(r"^\s*(?P<key>[\w.\"'-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=\s*(?P<value>\S.*?)\s*$")
_INLINE_ENTRY = re.compile(r"(?P<key>[\w.\"'-]+)\s*=\s*(?P<value>[\w+-]+)")


def read_toml(text: str) -> Iterator[SettingEntry]:
    """TOML: a scan of lines; entries that Python's TOML reader does not find at the same keys are omitted."""
    from skyline.toml import tomllib

    whole = tomllib.loads(text)
    for entry in _toml_lines(text):
        if entry.whole_number is None or entry.whole_number in _at(whole, entry.path):
            yield entry


def _toml_lines(text: str) -> Iterator[SettingEntry]:
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _SECTION.match(line):
            section = tuple(unquoted(part) for part in header["name"].split("."))
            continue
        match = _TOML_ENTRY.match(_TOML_COMMENT.sub("", line))
        if match is None:
            continue
        path = (*section, *(unquoted(part.strip()) for part in match["key"].split(".")))
        if not match["value"].startswith("{"):
            yield SettingEntry(number, match.start("value"), path, match["value"])
            continue
        for inner in _INLINE_ENTRY.finditer(line, match.start("value")):
            yield SettingEntry(number, inner.start("value"), (*path, unquoted(inner["key"])), inner["value"])


def _at(tree: object, path: tuple[str, ...]) -> list[object]:
    """The values at a path of keys; tables in a list are searched one by one. A number in quotes counts."""
    if isinstance(tree, list):
        return [found for each in cast("list[object]", tree) for found in _at(each, path)]
    if not path:
        return [int(tree) if isinstance(tree, str) and tree.isdecimal() else tree]
    table = cast("dict[str, object]", tree) if isinstance(tree, dict) else {}
    return _at(table[path[0]], path[1:]) if path[0] in table else []


_INI_COMMENT = re.compile(r"(?:^|\s)[#;].*$")
_INI_ENTRY = re.compile(r"^\s*(?:export\s+)?(?P<key>[\w. -]+?)\s*[=:]\s*(?P<value>\S.*?)\s*$")


def read_ini(text: str) -> Iterator[SettingEntry]:
    """INI, properties and ``.env``: every entry, with its section."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _SECTION.match(line):
            section = (header["name"],)
        elif not line.lstrip().startswith(("#", ";")) and (
            match := _INI_ENTRY.match(_INI_COMMENT.sub("", line))
        ):
            yield SettingEntry(number, match.start("value"), (*section, match["key"]), match["value"])


def read_python(text: str) -> Iterator[SettingEntry]:
    """Python that a script runs as its configuration: whole numbers that are assigned, passed or stored under a key."""
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
