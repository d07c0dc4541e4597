"""Replaces a large output layer by an adaptive softmax, which computes the loss from inputs and targets.

If the model computes the loss itself, the layer computes it there. If the training loop computes it, the model
returns the layer's inputs in training, and the loop passes them to the layer. In evaluation the model returns
log-probabilities as logits, which give the same cross entropy.
"""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import replace, statement_of
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.evaluation import without_gradients
from skyline.rewrite.sites.layers import layer_calls, layer_class
from skyline.rewrite.sites.passes import ForwardSite, bound_names, forward
from skyline.source.arguments import passed, qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, dotted, last_name, text_of, written
from skyline.whatif.catalogue.models.adaptive_softmax import (
    ADAPTIVE,
    OutputLayer,
    cutoffs,
    default_head,
    output_layer,
)

NAME = "adaptive_softmax"
ORDER = 60
"""After the changes that look for the loss as the person wrote it."""
_FUNCTION = "torch.nn.functional.cross_entropy"
_CRITERIA = ("CrossEntropyLoss", "NLLLoss")
_RESHAPES = ("view", "reshape", "flatten")
_PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.UnaryOp, ast.USub, ast.expr_context)


def snippet(value: str) -> str:
    """The layer, and the loss that it computes."""
    head = value or "K"
    return (
        f"self.head = nn.{ADAPTIVE}(width, classes, cutoffs=[{head}, ...], head_bias=True)\n"
        "loss = model.head(inputs_of_the_layer, targets).loss  # in training\n"
        "logits = self.head.log_prob(inputs_of_the_layer)  # in evaluation\n"
    )


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The condition under which the head holds the frequent classes."""
    return (
        "adaptive_softmax gains if class 0 is the most frequent, class 1 the next, and so on: number the classes so",
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Site:
    """The layer in the source: ``owner.name`` is its one call, in the ``forward`` of the class that makes it."""

    module: Module
    made: ast.Call
    name: str
    forward: Function
    call: ast.Call
    layer: OutputLayer

    @property
    def flat(self) -> bool:
        """True if the layer's inputs are a matrix."""
        return len(self.layer.inputs) == 2

    @property
    def given(self) -> str:
        """The layer's inputs, as written in the call."""
        return written(self.module.source, self.call.args[0])

    def loss(self, owner: str, inputs: str, targets: str, ignored: str = "") -> str:
        """The loss that the layer computes from its inputs."""
        rows = inputs if self.flat else f"{inputs}.flatten(0, -2)"
        kept = f"[{targets} != {ignored}]" if ignored else ""
        return f"{owner}({rows}{kept}, {targets}{kept}).loss"

    @property
    def log_prob(self) -> str:
        """The expression that replaces the logits in evaluation."""
        if self.flat:
            return f"self.{self.name}.log_prob({self.given})"
        return f"self.{self.name}.log_prob({self.given}.flatten(0, -2)).unflatten(0, {self.given}.shape[:-1])"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Replaces the layer, its call and the loss; refused if one of them is not found, or has other uses."""
    layer = output_layer(context.profile)
    if layer is None:
        message = "No large layer whose outputs go into a cross entropy was recorded"
        raise RewriteRefused(message, file=context.profile.script)
    if any(layer_class(module, call.func) == ADAPTIVE for module, call in context.program.nodes_of(ast.Call)):
        return ()
    head = whole_number(NAME, value) if value else default_head(layer.classes)
    (module, made, _), *_ = layer_calls(context, [layer.module])
    try:
        site = _site(context, module, made, layer)
        inside = _losses(context, within=site.forward)
        edits = _in_model(site, inside) if inside else _in_loop(context, site)
        return (*edits, *_layer(module, made, layer, head))
    except RewriteRefused as refused:
        refused.snippet = refused.snippet or _by_hand(context, module, made, layer, head)
        raise


def _site(context: RewriteContext, module: Module, made: ast.Call, layer: OutputLayer) -> _Site:
    statement = module.parents[made]
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value) if (
            value is made
        ):
            pass
        case _:
            raise refusal(
                "The output layer is not an attribute of its own: `self.head = nn.Linear(…)`", module, made
            )
    owner = next(each for each in module.around(made) if isinstance(each, ast.ClassDef))
    uses = [use for use in _uses(context, name) if not _of_another(use[0], use[1], owner)]
    if len(uses) != 1:
        first = next((use for use in uses if not _is_call(*use)), uses[-1] if uses else (module, made))
        lines = ", ".join(str(number) for number in sorted(each.lineno for _, each in uses)) or "none"
        message = f"`{name}` is used in more than one place, or in none (lines {lines})"
        raise refusal(message, first[0], first[1])
    where, use = uses[0]
    function = next((each for each in where.around(use) if isinstance(each, Function)), None)
    call = where.parents[use]
    plain = isinstance(call, ast.Call) and call.func is use and len(call.args) == 1 and not call.keywords
    if not plain or function is None or function.name != "forward" or where is not module:
        raise refusal(f"`{name}` is not called once in the `forward` of its model", where, use)
    assert isinstance(call, ast.Call)
    if len(layer.inputs) != 2 and not isinstance(call.args[0], ast.Name):
        hint = "Give it a name on a line of its own first."
        raise refusal(
            f"`{text_of(call.args[0])}` is needed twice, as it is and flattened", where, call, hint=hint
        )
    return _Site(module, made, name, function, call, layer)


def _uses(context: RewriteContext, name: str) -> list[tuple[Module, ast.Attribute]]:
    return [
        (module, node)
        for module, node in context.program.nodes_of(ast.Attribute)
        if node.attr == name and isinstance(node.ctx, ast.Load)
    ]


def _of_another(module: Module, use: ast.Attribute, owner: ast.ClassDef) -> bool:
    """True for an attribute of this name in another class of the program, or in a library."""
    if isinstance(use.value, ast.Name) and use.value.id == "self":
        return (
            next((each for each in module.around(use) if isinstance(each, ast.ClassDef)), None) is not owner
        )
    return qualified_name(module, use).startswith("torch.")


def _is_call(module: Module, use: ast.Attribute) -> bool:
    parent = module.parents[use]
    return isinstance(parent, ast.Call) and parent.func is use


def _in_model(site: _Site, losses: list[tuple[Module, ast.Call]]) -> tuple[TextEdit, ...]:
    """The edits for a loss in the same ``forward``: the layer computes it, and gives logits in evaluation."""
    module, (where, loss) = site.module, losses[0]
    if len(losses) > 1:
        raise refusal("The model computes more than one cross entropy", where, losses[1][1])
    match module.parents[site.call]:
        case ast.Assign(targets=[ast.Name(id=logits)]):
            pass
        case _:
            raise refusal(f"The outputs of `{site.name}` have no name", module, site.call)
    if logits in _names(site.call.args[0]):
        hint = "Give the outputs a name of their own first."
        raise refusal(
            f"`{logits}` names both the inputs and the outputs of the layer", module, site.call, hint=hint
        )
    given, targets = passed(loss, "input", 0).value, passed(loss, "target", 1).value
    if given is None or targets is None or _reshaped(given, site.flat) != logits:
        raise refusal(f"`{text_of(loss)}` does not take `{logits}` with one row for each target", where, loss)
    ignored = _ignored(where, loss, targets)
    for node in ast.walk(site.forward):
        if not isinstance(node, ast.Name) or node.id != logits or not isinstance(node.ctx, ast.Load):
            continue
        within = tuple(module.around(node))
        if loss not in within and not _is_returned(module, node):
            raise refusal(f"`{logits}` is used for more than the loss", module, node)
    _check_unchanged(site, loss)
    return (
        *replace(module, site.call, f"None if self.training else {site.log_prob}"),
        *replace(
            where, loss, site.loss(f"self.{site.name}", site.given, written(where.source, targets), ignored)
        ),
    )


def _is_returned(module: Module, node: ast.expr) -> bool:
    """True if a function returns the expression, alone or as one of several results."""
    parent = module.parents[node]
    return isinstance(module.parents[parent] if isinstance(parent, ast.Tuple) else parent, ast.Return)


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {"self"}


def _check_unchanged(site: _Site, loss: ast.Call) -> None:
    """Refuses if the inputs of the layer change before the loss is computed."""
    names = _names(site.call.args[0])
    for node in ast.walk(site.forward):
        between = isinstance(node, ast.stmt) and site.call.lineno < node.lineno < loss.lineno
        if between and isinstance(node, ast.stmt) and bound_names(node) & names:
            raise refusal(f"`{site.given}` changes before the loss is computed", site.module, node)


def _in_loop(context: RewriteContext, site: _Site) -> tuple[TextEdit, ...]:
    """The edits for a loss in the loop: the model returns the layer's inputs, the loop calls the layer."""
    _check_result(site)
    found = forward(context)
    where = found.module
    inside = {id(each) for statement in found.statements for each in ast.walk(statement)}
    losses = [(module, call) for module, call in _losses(context) if id(call) in inside]
    if len(losses) != 1:
        raise refusal("The training loop has no plain cross entropy", where, found.statements[-1])
    _, loss = losses[0]
    given, targets = passed(loss, "input", 0).value, passed(loss, "target", 1).value
    assert given is not None
    assert targets is not None
    ignored = _ignored(where, loss, targets)
    model = _model_of(site, found, given)
    parts = site.layer.module.path.split(".")
    if not all(part.isidentifier() for part in parts[1:]) or len(_roots(context)) != 1:
        raise refusal(f"`{site.layer.module.path}` cannot be reached from `{model}`", where, loss)
    _check_evaluation(context, found, model)
    inputs = written(where.source, _base(given))
    owner = ".".join((model, *parts[1:]))
    return (
        *replace(site.module, site.call, f"{site.given} if self.training else {site.log_prob}"),
        *replace(where, loss, site.loss(owner, inputs, written(where.source, targets), ignored)),
    )


def _check_result(site: _Site) -> None:
    """Refuses unless the outputs of the layer are only used as the result of ``forward``, or part of it."""
    module, around = site.module, site.module.parents[site.call]
    name = ""
    if (
        isinstance(around, ast.Assign)
        and len(around.targets) == 1
        and isinstance(around.targets[0], ast.Name)
    ):
        name = around.targets[0].id
    loads = [
        node
        for node in ast.walk(site.forward)
        if isinstance(node, ast.Name) and node.id == name and node.lineno > (site.call.end_lineno or 0)
    ]
    for node in loads if name else [site.call]:
        if not _is_returned(module, node):
            raise refusal(f"`forward` works on the outputs of `{site.name}`", module, node)
    if name and not loads:
        raise refusal(f"`{name}` is not returned", module, site.call)


def _model_of(site: _Site, found: ForwardSite, given: ast.expr) -> str:
    """The loop's name for the model whose outputs the loss takes."""
    where, base = found.module, _base(given)
    if not site.flat and base is given:
        raise refusal(f"`{text_of(given)}` does not have one row for each target", where, given)
    calls = {id(call): call for call in found.calls}
    if id(base) in calls:
        model = dotted(calls[id(base)].func)
    else:
        name = dotted(base)
        bound = [each for each in found.statements if name and name in bound_names(each)]
        made = [call for call in found.calls if len(bound) == 1 and statement_of(where, call) is bound[0]]
        if len(made) != 1:
            raise refusal(f"`{text_of(base)}` is not what one call of the model gives", where, given)
        for node in ast.walk(found.region.node):
            if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if dotted(node) == name and given not in (node, *where.around(node)):
                raise refusal(f"`{name}` is used for more than the loss", where, node)
        model = dotted(made[0].func)
    if not model:
        raise refusal("The model has no name in the training loop", where, given)
    return model


def _check_evaluation(context: RewriteContext, found: ForwardSite, model: str) -> None:
    """Refuses a model that is called elsewhere without ``eval()``: its results there would be no logits."""
    name = model.rpartition(".")[2]
    own = {id(call) for call in found.calls}
    others = [(module, call) for module, call in context.program.calls_of(name) if id(call) not in own]
    others = [(module, call) for module, call in others if call.args]
    if others and not context.program.calls_of("eval"):
        message = f"`{name}` is called here without `{name}.eval()`: it would give the inputs of the layer"
        raise refusal(message, *others[0])


def _roots(context: RewriteContext) -> set[str]:
    return {one.path.partition(".")[0] for one in context.profile.modules if one.trainable}


def _losses(context: RewriteContext, within: ast.AST | None = None) -> list[tuple[Module, ast.Call]]:
    """The calls that compute a cross entropy: the function, or the one criterion of the program."""
    made = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if layer_class(module, call.func) == _CRITERIA[0]
    ]
    names: set[str] = set()
    if len(made) == 1 and not made[0][1].args and not made[0][1].keywords:
        targets = [
            last_name(target)
            for _, node in context.program.nodes_of(ast.Assign)
            if made[0][1] in ast.walk(node.value)
            for target in node.targets
        ]
        names = set(targets) - {""}
    inside = None if within is None else {id(each) for each in ast.walk(within)}
    return [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if (qualified_name(module, call.func) == _FUNCTION or last_name(call.func) in names)
        and (inside is None or id(call) in inside)
        and passed(call, "input", 0).value is not None
        and passed(call, "target", 1).value is not None
    ]


def _ignored(module: Module, loss: ast.Call, targets: ast.expr) -> str:
    """The label that the loss ignores, as written; refused if the loss is weighted in other ways."""
    for keyword in loss.keywords:
        mean = isinstance(keyword.value, ast.Constant) and keyword.value.value == "mean"
        if keyword.arg not in ("input", "target", "ignore_index") and not (
            keyword.arg == "reduction" and mean
        ):
            raise refusal(f"`{keyword.arg or '**'}` has no counterpart in {ADAPTIVE}", module, keyword.value)
    if len(loss.args) > 2:
        raise refusal(f"`{text_of(loss.args[2])}` has no counterpart in {ADAPTIVE}", module, loss)
    given = passed(loss, "ignore_index", None).value
    if given is None:
        return ""
    if any(not isinstance(each, _PLAIN) for each in (*ast.walk(given), *ast.walk(targets))):
        raise refusal(f"`{text_of(targets)}` would be computed twice", module, loss)
    return written(module.source, given)


def _reshaped(node: ast.expr, flat: bool) -> str:
    """The name of the loss's first argument, with one row per target; empty for anything else."""
    base = _base(node)
    return dotted(base) if flat or base is not node else ""


def _base(node: ast.expr) -> ast.expr:
    """The ``x`` of ``x.view(-1, n)``; the expression itself if it is something else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RESHAPES:
        return node.func.value
    return node


def _layer(module: Module, made: ast.Call, layer: OutputLayer, head: int) -> tuple[TextEdit, ...]:
    """The layer with the same sizes and bias."""
    name = usable(module, f"torch.nn.{ADAPTIVE}", at=made)
    return (*name.edits, *replace(module, made, _constructed(module, made, layer, head, name.text)))


def _constructed(module: Module, made: ast.Call, layer: OutputLayer, head: int, name: str) -> str:
    first, second = (passed(made, word, at).value for at, word in enumerate(("in_features", "out_features")))
    if first is None or second is None:
        raise refusal(f"The sizes of `{text_of(made)}` are not given in the call", module, made)
    bias = passed(made, "bias", 2).value
    text = "True" if bias is None else written(module.source, bias)
    rest = [
        f"{keyword.arg}={written(module.source, keyword.value)}"
        for keyword in made.keywords
        if keyword.arg in ("device", "dtype")
    ]
    edges = ", ".join(map(str, cutoffs(layer.classes, head)))
    parts = [written(module.source, first), written(module.source, second), f"cutoffs=[{edges}]"]
    parts += [] if text == "False" else [f"head_bias={text}"]
    return f"{name}({', '.join((*parts, *rest))})"


def _by_hand(context: RewriteContext, module: Module, made: ast.Call, layer: OutputLayer, head: int) -> str:
    """The change to make by hand, with the lines that make and use the layer and that compute losses."""
    statement = statement_of(module, made)
    attribute = last_name(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    try:
        text = _constructed(module, made, layer, head, f"nn.{ADAPTIVE}")
    except RewriteRefused:
        return ""
    lines = [f"# {_place(module, made)}", f"self.{attribute or 'head'} = {text}"]
    owner = next((each for each in module.around(made) if isinstance(each, ast.ClassDef)), None)
    for where, use in _uses(context, attribute) if attribute else []:
        if owner is not None and _of_another(where, use, owner):
            continue
        words = (
            "in evaluation its log_prob(…), in training its inputs" if _is_call(where, use) else "its head"
        )
        lines.append(f"# {_place(where, use)}: {text_of(use)}: {words}")
    for where, loss in _loss_calls(context):
        lines.append(f"# {_place(where, loss)}: {text_of(loss)}: in training")
        lines.append(f"loss = model.{attribute or 'head'}(inputs, {_target_of(where, loss)}).loss")
    return "\n".join(lines) + "\n"


def _loss_calls(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    """Calls of criteria, with any options, and of the loss function, where gradients are recorded."""
    names = {
        last_name(target)
        for module, node in context.program.nodes_of(ast.Assign)
        for call in ast.walk(node.value)
        if isinstance(call, ast.Call) and layer_class(module, call.func) in _CRITERIA
        for target in node.targets
    }
    return [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if (qualified_name(module, call.func) == _FUNCTION or last_name(call.func) in names - {""})
        and not without_gradients(module, call)
    ]


def _target_of(module: Module, loss: ast.Call) -> str:
    target = passed(loss, "target", 1).value
    return "targets" if target is None else written(module.source, target)


def _place(module: Module, node: ast.expr) -> str:
    return f"{module.path.replace(chr(92), '/').rpartition('/')[2]}:{node.lineno}"
