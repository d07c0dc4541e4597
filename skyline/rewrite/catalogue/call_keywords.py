"""Rewrites that pass one keyword argument to one call: the wrapper of a replica, or the training's loader.

Each rewrite is a row of a table. The loader keywords here all need workers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.argument import (
    add_keyword,
    as_value,
    literal_given,
    set_argument,
    set_literal,
    without_argument,
)
from skyline.rewrite.blocks import insert_after, statement_of
from skyline.rewrite.catalogue.num_workers import training_loader
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.registry import RewriteEntry
from skyline.rewrite.sites.given import behind, decided_by, mapping_items
from skyline.rewrite.sites.replicas import replicas_arguments
from skyline.source.arguments import passed, qualified_name
from skyline.source.program import Module
from skyline.source.text import TextEdit, offsets_of, text_of
from skyline.source.text import written as source_text

_WORKERS, _POSITION = "num_workers", 5
_NEVER_NONE = ("os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count")


def add_beside_workers(
    context: RewriteContext, name: str, text: str, where_workers: str, snippet: str
) -> tuple[TextEdit, ...]:
    """Sets ``name=text`` in the training's loader, by changing the literal if the argument is there already.

    If a name or an option decides the number of workers, which may be 0 in another run, the edit writes
    ``where_workers`` instead, with that name for ``{}``.
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
            raise refusal(message, module, call, hint="Combine it with num_workers=N.")
        if passed(call, _WORKERS, _POSITION).value is not None:
            written = _text(module, workers, name, text, where_workers)
            return add_keyword(module.source, call, f"{name}={written}") if written else ()
        return _in_mapping(module, call, name, text, where_workers)
    except RewriteRefused as refused:
        raise RewriteRefused(
            refused.message, hint=refused.hint, file=refused.file, line=refused.line, snippet=snippet
        ) from refused


def value_beside(context: RewriteContext, name: str) -> str | None:
    """The present value of such an argument if there are workers: ``on``, a number, or None without it."""
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
    """True if the argument has the form that this rewrite writes next to a name, which is no literal."""
    present, workers = _given(module, call, name, None), _given(module, call, _WORKERS, _POSITION)
    if present is None or workers is None:
        return False
    return ast.unparse(present) == ast.unparse(ast.parse(where_workers.format(text_of(workers))))


def _given(module: Module, call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """The value of an argument in the call, or in the only dictionary item of that name in the file."""
    given = passed(call, name, position)
    items = mapping_items(module, name) if given.mappings else []
    return given.value or (items[0][2] if len(items) == 1 else None)


def _text(module: Module, workers: ast.expr, name: str, text: str, where_workers: str) -> str:
    match workers:
        case ast.Constant(value=int(number)) if number > 0:
            return text
        case ast.Constant():
            message = f"`{name}` needs workers, and `num_workers` is {workers.value!r}"
            hint = "Combine it with num_workers=N."
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
    """Adds the argument next to the only ``num_workers`` item in the dictionaries of this file."""
    items = mapping_items(module, _WORKERS)
    if len(items) != 1:
        message = f"`num_workers` is in {len(items) or 'no'} dictionaries of this file"
        raise refusal(message, module, call, hint="Write it by hand.")
    holder, key, value = items[0]
    written = _text(module, value, name, text, where_workers)
    if isinstance(holder, ast.Call):
        return add_keyword(module.source, holder, f"{name}={written}")
    assert key is not None
    written_key = source_text(module.source, key)
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


def _bracketed(module: Module, node: ast.expr) -> bool:
    """True if the value has brackets of its own, which its offsets leave out."""
    start, end = offsets_of(module.source, node)
    return module.source.text[:start].rstrip().endswith("(") and module.source.text[end:].lstrip().startswith(
        ")"
    )


_BESIDE_NUM_WORKERS = 60
"""The order of a rewrite that extends the edits of ``num_workers``."""


def _switch(name: str, value: str) -> str:
    check_switched_on(name, value)
    return "True"


def _megabytes(name: str, value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise RewriteRefused(f"{value!r} is not a value for {name}", hint="Give megabytes.")
    return str(int(number)) if number.is_integer() else str(number)


def _batches(name: str, value: str) -> str:
    if not value.isdigit() or int(value) < 1:
        message = f"{value!r} is not a number of batches"
        raise RewriteRefused(message, hint=f"Give a whole number: {name}=4.")
    return str(int(value))


@dataclass(frozen=True, slots=True)
class ReplicasKeyword:
    """A keyword of ``DistributedDataParallel``."""

    name: str
    argument: str
    literal: Callable[[str, str], str]
    """Gives the literal for the name of the rewrite and the value asked for."""
    usual: str
    """The literal of the code example if no valid value is asked for."""
    off: str

    def entry(self) -> RewriteEntry:
        """The rewrite."""
        return RewriteEntry(
            self.name, self._rewrite, snippet=self._snippet, present=self._present, remove=self._remove
        )

    def _snippet(self, value: str) -> str:
        try:
            text = self.literal(self.name, value)
        except RewriteRefused:
            text = self.usual
        return f"model = DistributedDataParallel(model, {self.argument}={text})\n"

    def _rewrite(self, context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
        text = self.literal(self.name, value)
        module, call = replicas_arguments(context)
        return set_argument(context, module, call, self.argument, text)

    def _present(self, context: RewriteContext) -> str | None:
        return as_value(literal_given(context, *replicas_arguments(context), self.argument))

    def _remove(self, context: RewriteContext) -> tuple[TextEdit, ...]:
        return without_argument(context, *replicas_arguments(context), self.argument, off=self.off)


@dataclass(frozen=True, slots=True)
class LoaderKeyword:
    """A keyword of ``DataLoader`` that only a loader with workers takes."""

    name: str
    literal: Callable[[str, str], str]
    guarded: str
    """The expression if a name decides the number of workers: ``{workers}`` is the name, ``{text}`` the literal."""
    off: str

    def entry(self) -> RewriteEntry:
        """The rewrite."""
        return RewriteEntry(
            self.name, self._rewrite, _BESIDE_NUM_WORKERS, present=self._present, remove=self._remove
        )

    def _rewrite(self, context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
        text = self.literal(self.name, value)
        guarded = self.guarded.format(workers="{}", text=text)
        snippet = f"DataLoader(..., num_workers=N, {self.name}={text})"
        return add_beside_workers(context, self.name, text, guarded, snippet)

    def _present(self, context: RewriteContext) -> str | None:
        return value_beside(context, self.name)

    def _remove(self, context: RewriteContext) -> tuple[TextEdit, ...]:
        return without_beside(context, self.name, self.off)


_KEYWORDS = (
    ReplicasKeyword("ddp_bucket", "bucket_cap_mb", _megabytes, usual="25", off="None"),
    ReplicasKeyword("gradient_as_bucket_view", "gradient_as_bucket_view", _switch, usual="True", off="False"),
    ReplicasKeyword("static_graph", "static_graph", _switch, usual="True", off="False"),
    LoaderKeyword("persistent_workers", _switch, guarded="{workers} > 0", off="False"),
    LoaderKeyword("prefetch_factor", _batches, guarded="{text} if {workers} > 0 else None", off="None"),
)

ENTRIES = tuple(keyword.entry() for keyword in _KEYWORDS)
