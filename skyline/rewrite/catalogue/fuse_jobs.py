"""Fuses several runs of a script: the optimizer has the stacked weights, and ``vmap`` computes the losses.

The model remains the model of run 0, for evaluation, output and files. For scripts that are not known to be
safe, Skyline prints the lines to write by hand, with the script's own names.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable

from skyline.errors import RewriteRefused, SkylineError
from skyline.rewrite.blocks import insert_after, insert_before, inserted, replace, wrap
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.fusable import check_fusable
from skyline.rewrite.imports import free_name, usable
from skyline.rewrite.sites.construction import Construction, construction
from skyline.rewrite.sites.iteration import iteration
from skyline.rewrite.sites.job_uses import JobUses, job_uses
from skyline.rewrite.sites.loss_function import LossFunction, loss_function
from skyline.rewrite.sites.model import model
from skyline.rewrite.sites.passes import ForwardSite, forward, optimizer_calls
from skyline.rewrite.written_jobs import ATTRIBUTE, CLASS, CLIP, class_text, written_calls
from skyline.source.text import TextEdit, dotted, offsets_of
from skyline.whatif.catalogue.models.fuse_jobs import Jobs

NAME = "fuse_jobs"
ORDER = 95
"""After all others: their edits in the forward pass are checked like the script's own code."""
_LOSSES = ("losses", "run")
"""The name of the losses of all runs, and the prefix for it if it is taken."""
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


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The effects on training, printed values and files; line numbers are those before the change."""
    count = Jobs.parse(NAME, value).count
    if written_calls(context):
        return (f"the script trains {count} runs now",)
    name, losses = model(context).text, free_name(forward(context).module, *_LOSSES)
    said = [
        (
            f"{count} runs train on the same batches: run 0 is the script's own, run i starts from weights "
            f"made with the script's seed plus i. An iteration of the loop trains all {count} runs"
        ),
        (
            "each run trains as it does alone, with other rounding; dropout and other random numbers of the "
            "forward pass differ from those of the run alone"
        ),
        (
            "printed losses, evaluation and saved weights are those of run 0. The models "
            f"of all runs are `{name}.{ATTRIBUTE}.models`, and `{losses}` has the loss of each"
        ),
    ]
    for _, call in context.program.calls_of("state_dict"):
        if isinstance(call.func, ast.Attribute) and dotted(call.func.value) in _optimizers(context):
            said.append(f"line {call.lineno} saves the state of the optimizer for all runs, stacked")
    for _, call in context.program.calls_of("load_state_dict"):
        said.append(f"line {call.lineno} loads saved weights into run 0 alone")
    return tuple(said)


def _optimizers(context: RewriteContext) -> set[str]:
    return {
        dotted(target)
        for module, call in optimizer_calls(context)
        if isinstance(statement := module.parents[call], ast.Assign)
        for target in statement.targets
    }


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds the class, the stacked weights and the loss of each run; else refused with the lines to write."""
    jobs = Jobs.parse(NAME, value)
    for module, call in written_calls(context):
        return replace(module, call.args[-1], str(jobs.count))
    try:
        if jobs.own_data:
            message = "The loop has one batch for an iteration, and each run is to read its own"
            raise RewriteRefused(message, file=context.profile.script)
        return _fused(context, jobs.count)
    except SkylineError as refused:
        raise RewriteRefused(
            _placed(context, refused),
            hint=refused.hint,
            file=refused.file,
            line=refused.line,
            snippet=_by_hand(context, value),
        ) from refused


def _placed(context: RewriteContext, refused: SkylineError) -> str:
    """The reason, with its line."""
    if not refused.line:
        return refused.message
    own = os.path.realpath(refused.file) == os.path.realpath(context.profile.script)
    where = f"line {refused.line}" if own else f"{os.path.basename(refused.file)}:{refused.line}"
    return f"{refused.message.rstrip('.')} ({where})"


def _fused(context: RewriteContext, count: int) -> tuple[TextEdit, ...]:
    within = iteration(context)
    made = construction(context)
    check_fusable(context, made, within)
    function = loss_function(forward(context, within))
    uses = job_uses(context, made.site, function, within)
    return (*_class_and_runs(made, uses, count), *_in_loop(function), *_in_uses(uses))


def _class_and_runs(made: Construction, uses: JobUses, count: int) -> tuple[TextEdit, ...]:
    """Adds the class before the code that makes the model, and the runs after that code."""
    site = made.site
    module, name = site.module, site.text
    top = next(
        each
        for each in (site.statement, *module.around(site.statement))
        if each in module.tree.body and isinstance(each, ast.stmt)
    )
    if any(CLASS in scope.bindings for scope in module.scopes.values()):
        raise refusal(f"The file has a `{CLASS}` of its own", module, top)
    torch = usable(module, "torch", top)
    lines = class_text(torch.text, zero_grad=bool(uses.zero_grads), clip=bool(uses.clips))
    runs = f"{name}.{ATTRIBUTE} = {CLASS}({name}, lambda: {made.expression}, {count})"
    return (
        *torch.edits,
        *insert_before(module, top, *lines, "", ""),
        *made.edits,
        *insert_after(module, site.statement, runs),
    )


def _in_loop(function: LossFunction) -> tuple[TextEdit, ...]:
    """Makes the forward pass a function of the model, which gives the losses of all runs."""
    site = function.site
    module = site.module
    name, losses = free_name(module, "loss_of", "run"), free_name(module, *_LOSSES)
    results = ", ".join((site.loss, *function.read))
    targets = ", ".join((losses, *function.read))
    lines = [f"    return {results}", f"{targets} = {function.model}.{ATTRIBUTE}.losses({name})"]
    shown = [(one, f"{one}[0].detach()") for one in function.read]
    if function.loss_read:
        shown.insert(0, (site.loss, f"{losses}[0].detach()"))
    if shown:
        lines.append(f"{', '.join(one for one, _ in shown)} = {', '.join(row for _, row in shown)}")
    return (
        *wrap(module, site.statements, f"def {name}({function.model}):", after=lines),
        *replace(module, site.backward.loss, f"{losses}.sum()"),
    )


def _in_uses(uses: JobUses) -> tuple[TextEdit, ...]:
    """Uses the stacked weights in the optimizer, and where gradients are cleared and clipped."""
    edits: list[TextEdit] = []
    for use in (*uses.parameters, *uses.zero_grads):
        edits.append(inserted(use.module, offsets_of(use.module.source, use.node)[1], f".{ATTRIBUTE}"))
    for call, use in uses.clips:
        source = use.module.source
        norm = call.args[1] if len(call.args) > 1 else call.keywords[0]
        start, end = offsets_of(source, call)[0], offsets_of(source, norm)[0]
        if "#" in source.text[start:end]:
            raise refusal("A comment is among the arguments of a call that changes", use.module, call)
        edits.append(source.edit(source.span(start, end), f"{ast.unparse(use.node)}.{ATTRIBUTE}.{CLIP}("))
    return tuple(edits)


def _by_hand(context: RewriteContext, value: str) -> str:
    try:
        return _own_lines(context, value)
    except SkylineError:
        return snippet(value)


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
    """The lines to write, with the script's own model, optimizer, forward pass and loss."""
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
    """The names of an iteration that the forward pass reads, without the model's, in order of first use."""
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
    """The statements of the forward pass, with the model called on the given weights."""
    (call,) = site.calls
    inputs: list[ast.expr] = [_expression("models[0]"), _expression("(weights, buffers)")]
    inputs.append(ast.Tuple(call.args, ast.Load()))
    if call.keywords:
        keys = [ast.Constant(one.arg) for one in call.keywords]
        inputs.append(ast.Dict([*keys], [one.value for one in call.keywords]))
    on_weights = ast.Call(_expression("torch.func.functional_call"), inputs, [])
    lines = "\n".join(ast.unparse(statement) for statement in site.statements)
    return lines.replace(ast.unparse(call), ast.unparse(on_weights))
