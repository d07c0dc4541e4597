"""Python that a script runs as its configuration: assignments, keywords and dictionary entries."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.source.setting_formats.entry import SettingEntry


def read(text: str) -> Iterator[SettingEntry]:
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
