"""Conversion of text to Python syntax, and of syntax nodes to places in the text."""

from __future__ import annotations

import ast
import gc
import warnings
from collections.abc import Iterator

from skyline.errors import UsageError
from skyline.source.span import SourceSpan
from skyline.source.text import SourceText

Located = ast.expr | ast.stmt | ast.arg | ast.keyword
Function = ast.FunctionDef | ast.AsyncFunctionDef

# A display of this length is a data table without settings.
_TABLE_LENGTH = 2_000
_DISPLAYS = (ast.List, ast.Tuple, ast.Set)
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


def parse(source: SourceText) -> ast.Module:
    """The syntax tree; raises UsageError, with file and line, if the text is not Python."""
    collecting = gc.isenabled()
    gc.disable()  # parsing allocates many live nodes, which the collector would scan repeatedly
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the user's code are not for us to report
            return ast.parse(source.text, source.path)
    except SyntaxError as error:
        message = f"not valid Python: {error.msg}"
        raise UsageError(
            message, file=source.path, line=error.lineno or 1, hint="Fix the syntax first."
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"not valid Python: {error}", file=source.path, line=1) from None
    finally:
        if collecting:
            gc.enable()


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The direct child nodes, except nodes without a position, such as operators, and entries of data tables."""
    if isinstance(node, _DISPLAYS) and len(node.elts) > _TABLE_LENGTH:
        return
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(each, ast.AST) and not isinstance(each, _MARKS):
                    yield each
        elif isinstance(value, ast.AST) and not isinstance(value, _MARKS):
            yield value


def span_of(source: SourceText, node: Located) -> SourceSpan:
    """The position of a node, in characters."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return SourceSpan(
        source.path,
        node.lineno,
        source.column_from_utf8(node.lineno, node.col_offset),
        end_line,
        source.column_from_utf8(end_line, end_column),
    )


def offsets_of(source: SourceText, node: Located) -> tuple[int, int]:
    """The start and end of a node in ``source.text``."""
    span = span_of(source, node)
    return source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)


def text_of(node: ast.AST, limit: int = 60) -> str:
    """A node as one line for messages; a long one is cut with an ellipsis."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def dotted(node: ast.expr) -> str:
    """``a.b.c`` for a chain of names, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (front := dotted(node.value)):
        return f"{front}.{node.attr}"
    return ""


def last_name(node: ast.expr) -> str:
    """The name after the last dot: ``c`` for ``a.b.c`` and for ``f().c``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def literal_key(node: ast.Subscript) -> str | None:
    """The text in the brackets, if it is a literal."""
    constant = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return constant if isinstance(constant, str) else None
