"""Arguments of a DataLoader that it takes only where it has workers: written beside ``num_workers``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_literal
from skyline.rewrite.blocks import insert_after, statement_of
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.given_argument import as_value, literal_given, without_argument
from skyline.rewrite.keyword import add_keyword
from skyline.rewrite.refusal import refusal
from skyline.rewrite.sites.given import behind, decided_by, mapping_items
from skyline.rewrite.sites.loader import training_loader
from skyline.source.arguments import passed
from skyline.source.calls import qualified_name
from skyline.source.edit import TextEdit
from skyline.source.program import Module
from skyline.source.syntax import offsets_of, text_of

_WORKERS, _POSITION = "num_workers", 5
_NEVER_NONE = ("os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count")


def add_beside_workers(
    context: RewriteContext, name: str, text: str, where_workers: str, snippet: str
) -> tuple[TextEdit, ...]:
    """``name=text`` for the training's loader, whose literal is changed where it has the argument already.

    Where a name or an option decides the number of workers, which may be 0 in another run, ``where_workers`` is
    written instead, with that name for ``{}``.
    """
    module, call = training_loader(context)
    if _is_written(module, call, name, where_workers):
        return ()
    try:
        present = decided_by(context, module, call, name)
        if present is not None:
            return set_literal(*present, name, text)
        workers = behind(context, module, call, _WORKERS, _POSITION)
        if workers is None:
            message = f"`{name}` needs workers, and the DataLoader has none"
            raise refusal(message, module, call, hint="Ask for num_workers=N together with it.")
        if passed(call, _WORKERS, _POSITION).value is not None:
            written = _text(module, workers, name, text, where_workers)
            return add_keyword(module.source, call, f"{name}={written}") if written else ()
        return _in_mapping(module, call, name, text, where_workers)
    except RewriteRefused as refused:
        raise RewriteRefused(
            refused.message, hint=refused.hint, file=refused.file, line=refused.line, snippet=snippet
        ) from refused


def value_beside(context: RewriteContext, name: str) -> str | None:
    """What such an argument is given now, where there are workers: ``on``, a number, or None without it."""
    module, call = training_loader(context)
    match _given(module, call, name, None):
        case ast.Compare(ops=[ast.Gt()], comparators=[ast.Constant(value=0)]):
            return "on"
        case ast.IfExp(body=ast.Constant(value=value), orelse=ast.Constant(value=None)):
            return as_value(value)
        case _:
            return as_value(literal_given(context, module, call, name))


def without_beside(context: RewriteContext, name: str, off: str) -> tuple[TextEdit, ...]:
    """The training's loader without such an argument."""
    return without_argument(context, *training_loader(context), name, off=off)


def _is_written(module: Module, call: ast.Call, name: str, where_workers: str) -> bool:
    """Whether the argument is there as this writes it beside a name, which is no literal to be changed."""
    present, workers = _given(module, call, name, None), _given(module, call, _WORKERS, _POSITION)
    if present is None or workers is None:
        return False
    return ast.unparse(present) == ast.unparse(ast.parse(where_workers.format(text_of(workers))))


def _given(module: Module, call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """What an argument is given in the call, or by the only item of that name that a dictionary of the file has."""
    given = passed(call, name, position)
    items = mapping_items(module, name) if given.mappings else []
    return given.value or (items[0][2] if len(items) == 1 else None)


def _text(module: Module, workers: ast.expr, name: str, text: str, where_workers: str) -> str:
    match workers:
        case ast.Constant(value=int(number)) if number > 0:
            return text
        case ast.Constant():
            message = f"`{name}` needs workers, and `num_workers` is {workers.value!r}"
            hint = "Ask for num_workers=N together with it."
        case ast.Call() if qualified_name(module, workers.func) in _NEVER_NONE:
            return text
        case (
            ast.Name() | ast.Attribute() | ast.Subscript()
            | ast.Call(func=ast.Name(id="int"), args=[ast.Name() | ast.Attribute()], keywords=[])
        ):  # fmt: skip
            return where_workers.format(text_of(workers))
        case _:
            message = f"`num_workers` is `{text_of(workers)}`, which may be 0"
            hint = "Write the argument by hand."
    raise refusal(message, module, workers, hint=hint)


def _in_mapping(
    module: Module, call: ast.Call, name: str, text: str, where_workers: str
) -> tuple[TextEdit, ...]:
    """Beside the only item of that name that a dictionary of this file has."""
    items = mapping_items(module, _WORKERS)
    if len(items) != 1:
        message = f"`num_workers` is in {len(items) or 'no'} dictionaries of this file"
        raise refusal(message, module, call, hint="Write it by hand.")
    holder, key, value = items[0]
    written = _text(module, value, name, text, where_workers)
    if isinstance(holder, ast.Call):
        return add_keyword(module.source, holder, f"{name}={written}")
    assert key is not None
    written_key = _source_of(module, key)
    named = written_key.replace(_WORKERS, name) if _WORKERS in written_key else repr(name)
    if isinstance(holder, ast.Dict):
        _, end = offsets_of(module.source, value)
        end += (
            len(module.source.text[end:]) - len(module.source.text[end:].lstrip(" )"))
            if _bracketed(module, value)
            else 0
        )
        return (module.source.edit(module.source.span(end, end), f", {named}: {written}"),)
    base = text_of(holder.value)
    return insert_after(module, statement_of(module, holder), f"{base}[{named}] = {written}")


def _source_of(module: Module, node: ast.expr) -> str:
    start, end = offsets_of(module.source, node)
    return module.source.text[start:end]


def _bracketed(module: Module, node: ast.expr) -> bool:
    """Whether the value stands in brackets of its own, which its offsets leave out."""
    start, end = offsets_of(module.source, node)
    return module.source.text[:start].rstrip().endswith("(") and module.source.text[end:].lstrip().startswith(
        ")"
    )
