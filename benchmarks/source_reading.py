"""A text as read by Python's own tokenizer, parser, compiler and symbol tables.

Nothing of Skyline's source reading is used here, because a check of rewrites must not share their mistakes.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import tokenize
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_LAYOUT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_SUITES = ("body", "orelse", "finalbody", "handlers")

Around = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A token other than layout, with its offsets. ``trails``: code precedes it on its line."""

    text: str
    start: int
    end: int
    is_comment: bool
    trails: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at its offset, with its kind and the statements around it."""

    start: int
    end: int
    node: ast.stmt
    around: Around

    @property
    def kind(self) -> str:
        """The class of the statement in Python's syntax tree."""
        return type(self.node).__name__

    @property
    def says(self) -> str:
        """The tree of the statement, without the statements in its blocks."""
        parts = [
            ast.dump(item) if isinstance(item, ast.AST) else repr(item)
            for name, value in ast.iter_fields(self.node)
            if name not in _SUITES or not isinstance(value, list)
            for item in (value if isinstance(value, list) else [value])
        ]
        return f"{self.kind}({', '.join(parts)})"


@dataclass
class Reading:
    """Python's view of a text. ``error`` is the reason why it does not compile, empty if it compiles."""

    text: str
    starts: list[int] = field(default_factory=list[int])
    pieces: list[Piece] = field(default_factory=list[Piece])
    statements: dict[int, Statement] = field(default_factory=dict[int, Statement])
    error: str = ""
    scopes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The lookup of each name, by path of the function or class. The path of the file is empty."""
    unbound: frozenset[str] = frozenset()
    """Names that are read from the scope of the file, but are not bound in the file."""
    bound: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """The place at which a scope, given by path, first binds a name in its own code."""
    used: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """The place at which a scope first reads a name."""
    claimed: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Number of times that imports and loops bind a name in a scope."""
    keywords: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Number of calls with a keyword argument, by the last part of the called name."""

    def line(self, offset: int) -> int:
        """The line number of an offset."""
        return bisect_right(self.starts, offset)


@lru_cache(maxsize=8)
def read(text: str) -> Reading:
    """The reading of a text. It has no statements if the text is not Python."""
    found = Reading(text)
    lines = [each.group() for each in _LINE.finditer(text) if each.group()]
    found.starts.append(0)
    for line in lines:
        found.starts.append(found.starts[-1] + len(line))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            compile(tree, "made up", "exec", dont_inherit=True)
            found.pieces = _pieces(lines, found.starts)
            found.statements = _statements(tree, lines, found.starts)
            _names(symtable.symtable(text, "made up", "exec"), found)
            _Order(found, lines).body("", tree.body)
            _keywords(tree, found)
        except (SyntaxError, ValueError, tokenize.TokenError) as error:
            found.error = f"{type(error).__name__}: {error}"
    return found


def _pieces(lines: list[str], starts: list[int]) -> list[Piece]:
    waiting = iter(lines)
    found: list[Piece] = []
    last_line = 0
    for token in tokenize.generate_tokens(lambda: re.sub(r"\r\n?", "\n", next(waiting, ""))):
        if token.type in _LAYOUT:
            continue
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        is_comment = token.type == tokenize.COMMENT
        found.append(Piece(token.string, start, end, is_comment, token.start[0] == last_line))
        last_line = token.end[0]
    return found


def _statements(tree: ast.Module, lines: list[str], starts: list[int]) -> dict[int, Statement]:
    def offset(line: int, utf8_column: int) -> int:
        return _offset(lines, starts, line, utf8_column)

    def below(node: ast.AST, around: Around) -> Iterator[Statement]:
        for name in _SUITES:
            for each in getattr(node, name, ()) if not isinstance(node, ast.expr) else ():
                start = offset(each.lineno, each.col_offset)
                end = offset(each.end_lineno, each.end_col_offset)
                inside = (*around, (at, name)) if (at := places.get(node)) is not None else around
                places[each] = start
                yield Statement(start, end, each, inside)
                yield from below(each, inside)

    places: dict[ast.AST, int] = {}
    return {each.start: each for each in below(tree, ())}


def _offset(lines: list[str], starts: list[int], line: int, utf8_column: int) -> int:
    text = lines[line - 1]
    column = utf8_column if text.isascii() else len(text.encode()[:utf8_column].decode())
    return starts[line - 1] + column


def _names(table: symtable.SymbolTable, found: Reading) -> None:
    read_of_file: set[str] = set()

    def walk(one: symtable.SymbolTable, path: str) -> None:
        named = one.get_type() in ("function", "class") and one.get_name() not in (
            "lambda",
            "genexpr",
            "listcomp",
        )
        own = found.scopes.setdefault(path, {}) if named or not path else {}
        for symbol in one.get_symbols():
            is_of_file = symbol.is_global() or (not path and not symbol.is_local())
            own[symbol.get_name()] = "file" if is_of_file else "outer" if symbol.is_free() else "own"
            if symbol.is_referenced() and is_of_file:
                read_of_file.add(symbol.get_name())
        for inner in one.get_children():
            walk(inner, f"{path}.{inner.get_name()}")

    walk(table, "")
    bound = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    bound |= {each.get_name() for each in table.get_symbols() if each.is_namespace()}
    found.unbound = frozenset(read_of_file - bound - set(dir(builtins)))


def _keywords(tree: ast.Module, found: Reading) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            found.keywords.update((called, each.arg) for each in node.keywords if each.arg)


@dataclass
class _Order:
    """Finds the places at which each scope first binds and first reads its names, in the order of the text."""

    found: Reading
    lines: list[str]

    def body(self, path: str, nodes: Iterable[ast.AST]) -> None:
        """Visit everything below some nodes as code of one scope."""
        for node in nodes:
            self._one(path, node)

    def _one(self, path: str, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._note(self.found.bound, path, node.name, node)
                inner = f"{path}.{node.name}"
                if not isinstance(node, ast.ClassDef):
                    for each in ast.walk(node.args):
                        if isinstance(each, ast.arg):
                            self._note(self.found.bound, inner, each.arg, each)
                self.body(path, node.decorator_list)
                self.body(inner, node.body)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._note(self.found.bound, path, name, node)
                    self.found.claimed[path, name] += 1
            case ast.For() | ast.AsyncFor():
                names = (each.id for each in ast.walk(node.target) if isinstance(each, ast.Name))
                self.found.claimed.update((path, name) for name in names)
                self.body(path, ast.iter_child_nodes(node))
            case ast.Name(ctx=ast.Load()):
                self._note(self.found.used, path, node.id, node)
            case ast.Name():
                self._note(self.found.bound, path, node.id, node)
            case ast.Lambda() | ast.GeneratorExp() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                pass
            case _:
                self.body(path, ast.iter_child_nodes(node))

    def _note(self, into: dict[tuple[str, str], int], path: str, name: str, node: Any) -> None:
        offset = _offset(self.lines, self.found.starts, node.lineno, node.col_offset)
        into[path, name] = min(into.get((path, name), offset), offset)
