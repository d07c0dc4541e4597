"""Converts the models' convolutions, and the input images of a single model, to the channels-last layout."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import add_keyword, keyword_of
from skyline.rewrite.blocks import insert_after, insert_before, statement_of, wrap_expression
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.iteration import Framework, framework
from skyline.rewrite.sites.model import fitted, models
from skyline.rewrite.sites.passes import ForwardSite, forward
from skyline.rewrite.sites.transfer import TransferSite, transfers
from skyline.rewrite.unwrapping import without_statements
from skyline.source.arguments import calls_at, qualified_name
from skyline.source.program import Module
from skyline.source.text import TextEdit, dotted, last_name, offsets_of, text_of
from skyline.trace.record import Phase

NAME = "channels_last"
ORDER = 40
_LAYOUT = "torch.channels_last"
_SNIPPET = "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Converts the model once it is complete, and each batch before the model takes it; views become reshapes."""
    if value.lower() not in ("", "true", "1", "yes", "on"):
        raise RewriteRefused(
            f"{value!r} is not a value for channels_last", hint="Give the name without a value."
        )
    if any(_names_layout(module, node) for module, node in context.program.nodes()):
        return ()
    owner = framework(context)
    try:
        if owner is not None and owner.kind == "lightning":
            edits = _of_lightning(context, owner)
        else:
            edits = _of_models(context)
        edits += _reshaped(context)
    except RewriteRefused as problem:
        problem.snippet = problem.snippet or _SNIPPET
        raise
    return tuple(dict.fromkeys(edits))


def _of_models(context: RewriteContext) -> list[TextEdit]:
    """Converts each model after the statement that completes it, and the batch of a single model."""
    edits: list[TextEdit] = []
    sites = models(context)
    for site in sites:
        layout = usable(site.module, _LAYOUT, at=site.statement)
        edits += [
            *layout.edits,
            *insert_after(site.module, site.statement, _converted(site.text, layout.text)),
        ]
    if len(sites) == 1:
        edits += _batch(context, forward(context))
    # With several models, some take noise or results: a convolution converts what it is given.
    return edits


def _of_lightning(context: RewriteContext, owner: Framework) -> list[TextEdit]:
    """Converts the model before ``trainer.fit(model, …)``. Its first convolution converts the images."""
    module, call = fitted(context, owner)
    given, statement = call.args[0], statement_of(module, call)
    name = dotted(given)
    if not name:
        raise refusal(f"`{text_of(given)}` is not a variable", module, given)
    layout = usable(module, _LAYOUT, at=statement)
    return [*layout.edits, *insert_before(module, statement, _converted(name, layout.text))]


def _converted(name: str, layout: str) -> str:
    return f"{name} = {name}.to(memory_format={layout})"


def _reshaped(context: RewriteContext) -> list[TextEdit]:
    """``x.reshape(len(x), -1)`` for each ``x.view(len(x), -1)`` of images, which works with channels first alone."""
    trace = context.profile.trace
    edits: list[TextEdit] = []
    for record in trace.records:
        if (
            record.name != "aten::view"
            or record.phase is not Phase.FORWARD
            or min(record.shape, record.line) < 0
        ):
            continue
        size = next(iter(trace.shapes[record.shape].inputs), ())
        if len(size) != 4 or size[1] == 1 or size[2] * size[3] == 1:
            continue
        try:
            module, line = context.place(trace.lines[record.line])
        except RewriteRefused:
            continue
        for call in calls_at(module, line, lambda callee: last_name(callee) == "view"):
            if any(
                isinstance(given, ast.Attribute) and dotted(given).startswith("torch.") for given in call.args
            ):
                continue  # A view as another number format.
            _, end = offsets_of(module.source, call.func)
            edits.append(module.source.edit(module.source.span(end - len("view"), end), "reshape"))
    return edits


def _names_layout(module: Module, node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and (
        qualified_name(module, node) == _LAYOUT
        or (isinstance(node, ast.Attribute) and node.attr == "channels_last")
    )


def _batch(context: RewriteContext, site: ForwardSite) -> list[TextEdit]:
    """Converts the model's first argument: where it moves to its device, or else in the call of the model."""
    call = site.calls[0]
    if not call.args or isinstance(call.args[0], ast.Starred):
        raise refusal("The first argument of the model is unknown", site.module, call)
    images = call.args[0]
    moved = [each for each in transfers(context) if _becomes(each, images)]
    if moved:
        return [edit for each in moved for edit in _moved(each.region.module, each.call)]
    layout = usable(site.module, _LAYOUT, at=call)
    simple = isinstance(images, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    before, after = ("", "") if simple else ("(", ")")
    wrapped = wrap_expression(site.module, images, before, f"{after}.to(memory_format={layout.text})")
    return [*layout.edits, *wrapped]


def _becomes(transfer: TransferSite, images: ast.expr) -> bool:
    """True if a transfer makes the model's input: in its place, or under its name."""
    if transfer.call is images or any(node is transfer.call for node in ast.walk(images)):
        return True
    name = dotted(images)
    if not name or not isinstance(transfer.statement, ast.Assign):
        return False
    for target in transfer.statement.targets:
        match target, transfer.statement.value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                pairs = zip(names, values, strict=True)
                if any(dotted(one) == name and value is transfer.call for one, value in pairs):
                    return True
            case _:
                if dotted(target) == name and transfer.statement.value is transfer.call:
                    return True
    return False


def _moved(module: Module, call: ast.Call) -> list[TextEdit]:
    layout = usable(module, _LAYOUT, at=call)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        text = f".to(memory_format={layout.text})"
        edits = wrap_expression(module, call, "", text)
    elif keyword_of(call, "memory_format") is not None:
        return []
    else:
        edits = add_keyword(module.source, call, f"memory_format={layout.text}")
    return [*layout.edits, *edits]


def present(context: RewriteContext) -> str | None:
    """``on`` if the program names the layout."""
    return "on" if any(_names_layout(module, node) for module, node in context.program.nodes()) else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes ``memory_format=torch.channels_last``; refused if the layout is named in any other way."""
    edits: list[TextEdit] = []
    gone: dict[int, tuple[Module, list[ast.stmt]]] = {}
    for module, node in context.program.nodes():
        if not _names_layout(module, node) or _names_layout(module, module.parents.get(node, node)):
            continue
        keyword = module.parents.get(node)
        call = module.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
        if (
            not isinstance(keyword, ast.keyword)
            or not isinstance(call, ast.Call)
            or keyword.arg != "memory_format"
        ):
            assert isinstance(node, ast.expr)
            message = f"`{text_of(node)}` is not the argument `memory_format` of a call"
            raise refusal(message, module, node, hint="Remove it there.")
        if call.args or len(call.keywords) > 1:
            edits += without_keyword(module, keyword)
            continue
        statement = module.parents.get(call)
        if _is_to_itself(statement, call):
            assert isinstance(statement, ast.stmt)
            gone.setdefault(id(module), (module, []))[1].append(statement)
        else:
            edits += _without_suffix(module, call)
    for module, statements in gone.values():
        edits += without_statements(module, statements)
    return tuple(edits)


def _is_to_itself(statement: ast.AST | None, call: ast.Call) -> bool:
    """True if a statement is ``x = x.to(memory_format=…)``, or a call that converts a model in place."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if isinstance(statement, ast.Expr):
        return True
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    return ast.unparse(statement.targets[0]) == ast.unparse(call.func.value)


def _without_suffix(module: Module, call: ast.Call) -> list[TextEdit]:
    """Replaces ``x.to(memory_format=…)`` by ``x``, without the brackets that only the call needed."""
    source, owner = module.source, call.func.value if isinstance(call.func, ast.Attribute) else None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if owner is None or name not in ("to", "contiguous"):
        message = f"`{text_of(call)}` makes a tensor in that layout"
        raise refusal(message, module, call, hint="Remove it there.")
    start, end = offsets_of(source, call)
    first, last = offsets_of(source, owner)
    suffix = source.text[last:end]
    if "#" in suffix or "#" in source.text[start:first]:
        raise refusal(f"`{text_of(call)}` has a comment inside", module, call, hint="Remove it there.")
    around = module.parents.get(call)
    whole = isinstance(around, ast.Call) and call in around.args
    if whole and source.text[start:first] == "(" and suffix.startswith(")."):
        return [source.edit(source.span(start, first), ""), source.edit(source.span(last, end), "")]
    kept = last + len(suffix) - len(suffix.lstrip(" )"))
    return [source.edit(source.span(kept, end), "")]
