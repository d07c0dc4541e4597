"""Shows how several runs of a script become one, with the script's own lines; no edit of the script is safe."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from skyline.errors import RewriteRefused, SkylineError
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.model import model
from skyline.rewrite.sites.passes import ForwardSite, forward, optimizer_calls
from skyline.source.text import TextEdit, dotted
from skyline.whatif.catalogue.models.fuse_jobs import Jobs

NAME = "fuse_jobs"
_REASON = (
    "The lines that print, save, schedule and evaluate are written for one run: only you know which of them each of "
    "several runs needs, and what differs between the runs"
)
_BY_HAND = """\
models = [{made} for _ in range({count})]  # set the seed of each before
weights, buffers = torch.func.stack_module_state(models)
optimizer = {optimizer}

def loss_of(weights, buffers, {batch}):
{forward}
    return {loss}

# in the loop, in place of forward pass and backward pass:
each_loss = torch.func.vmap(loss_of, (0, 0{shared}), randomness="different")(weights, buffers, {batch})
each_loss.sum().backward()
"""


def snippet(value: str) -> str:
    """The parts of such a script."""
    call = "torch.func.functional_call(models[0], (weights, buffers), (inputs,))"
    return _filled(
        value,
        "Model()",
        "torch.optim.AdamW(weights.values())",
        ("inputs", "targets"),
        f"    loss = criterion({call}, targets)",
        "loss",
    )


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Refuses, with the lines to write by hand: those of the script where they are found."""
    Jobs.parse(NAME, value)
    try:
        by_hand = _own_lines(context, value)
    except SkylineError:
        by_hand = snippet(value)
    raise RewriteRefused(_REASON, file=context.profile.script, snippet=by_hand)


def _filled(value: str, made: str, optimizer: str, batch: Iterable[str], forward_pass: str, loss: str) -> str:
    names = tuple(batch)
    return _BY_HAND.format(
        made=made,
        count=Jobs.parse(NAME, value).count,
        optimizer=optimizer,
        batch=", ".join(names),
        shared=", None" * len(names),
        forward=forward_pass,
        loss=loss,
    )


def _own_lines(context: RewriteContext, value: str) -> str:
    """The model as it is made, the optimizer as it is made, and the forward pass with its loss."""
    site, within = model(context), forward(context)
    calls = optimizer_calls(context)
    if site.value is None or len(calls) != 1 or len(within.calls) != 1:
        return snippet(value)
    made = calls[0][1]
    over_weights = ast.Call(
        made.func,
        [_expression("weights.values()"), *made.args[1:]],
        [one for one in made.keywords if one.arg != "params"],
    )
    return _filled(
        value,
        ast.unparse(site.value),
        ast.unparse(over_weights),
        _batch_names(within),
        "\n".join(f"    {line}" for line in _with_weights(within).splitlines()),
        within.loss,
    )


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _batch_names(site: ForwardSite) -> tuple[str, ...]:
    """The names of an iteration that the forward pass reads, in the order of their first use; not the model's."""
    bound = {one.arg for one in ast.walk(site.region.node) if isinstance(one, ast.arg)}
    bound |= {*_names(site.region.node, ast.Store)}
    made = {name for statement in site.statements for name in _names(statement, ast.Store)}
    read = [name for statement in site.statements for name in _names(statement, ast.Load)]
    called = {dotted(call.func).partition(".")[0] for call in site.calls}
    return tuple(dict.fromkeys(name for name in read if name in bound and name not in made | called))


def _names(node: ast.AST, context: type[ast.expr_context]) -> list[str]:
    found = [one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, context)]
    return [one.id for one in sorted(found, key=lambda one: (one.lineno, one.col_offset))]


def _with_weights(site: ForwardSite) -> str:
    """The statements of the forward pass, with the model called on given weights."""
    (call,) = site.calls
    inputs: list[ast.expr] = [_expression("models[0]"), _expression("(weights, buffers)")]
    inputs.append(ast.Tuple(call.args, ast.Load()))
    if call.keywords:
        keys = [ast.Constant(one.arg) for one in call.keywords]
        inputs.append(ast.Dict([*keys], [one.value for one in call.keywords]))
    on_weights = ast.Call(_expression("torch.func.functional_call"), inputs, [])
    lines = "\n".join(ast.unparse(statement) for statement in site.statements)
    return lines.replace(ast.unparse(call), ast.unparse(on_weights))
