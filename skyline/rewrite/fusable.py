"""Refuses code that ``torch.func`` cannot compute for several models at once, or that would mix their runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.errors import RewriteRefused
from skyline.rewrite.compiling import compiling_calls
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.recomputed import checkpoint_calls
from skyline.rewrite.sites.construction import Construction
from skyline.rewrite.sites.iteration import Iteration, framework
from skyline.rewrite.sites.layers import layer_class
from skyline.rewrite.sites.passes import BackwardSite, backward, optimizer_calls, step
from skyline.source.arguments import qualified_name, torch_optimizer
from skyline.source.program import Module
from skyline.source.setting_names import words
from skyline.source.text import Function, dotted, last_name, text_of

_BY_ELEMENT = {
    "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop",
}  # fmt: skip
"""Optimizers that update each number by its own gradient and state: stacking the weights changes nothing."""
UNBATCHED = ("LSTM", "GRU", "RNN", "SyncBatchNorm")
_NAMES = {
    "autocast": "Number formats that autocast chooses are not compared with those of a run alone",
    "GradScaler": "A gradient scaler checks the gradients of all runs together",
    "ReduceLROnPlateau": "ReduceLROnPlateau sets the learning rate of all runs by the loss of one",
    "AveragedModel": "An average of the weights would be that of run 0",
    "spectral_norm": "torch.func cannot batch the spectral norm",
    "register_hook": "A hook would see the tensors of all runs",
    "register_forward_hook": "A hook would see the tensors of all runs",
    "register_forward_pre_hook": "A hook would see the tensors of all runs",
    "register_full_backward_hook": "A hook would see the tensors of all runs",
}
_VALUES = {"item", "tolist", "numpy"}
"""Methods that read the values of a tensor, which ``vmap`` refuses."""
_DRAWS = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal", "bernoulli", "empty")
_OWN_LOSS = {"loss", "losses", "nan", "isnan", "isfinite", "accuracy", "acc", "best", "patience"}
_TRAINS = {"step", "zero_grad", "backward", "exit"}


def check_fusable(context: RewriteContext, made: Construction, within: Iteration) -> BackwardSite:
    """The backward pass; raises RewriteRefused for the first problem that is found."""
    used = framework(context)
    if used is not None:
        raise refusal(f"{used.title} drives the training", used.module, used.call)
    _check_optimizer(context, within)
    site = _check_backward(context, within)
    _check_calls(context, made)
    _check_layers(context)
    for module, owner in _model_classes(context):
        _check_class(module, owner)
    _check_decisions(within, site)
    return site


def _check_optimizer(context: RewriteContext, within: Iteration) -> None:
    calls = optimizer_calls(context)
    if len(calls) != 1:
        raise RewriteRefused("More than one optimizer steps", file=context.profile.script)
    module, call = calls[0]
    name = torch_optimizer(module, call.func)
    if name not in _BY_ELEMENT:
        raise refusal(f"{name} computes more than one number of a weight together", module, call)
    stepped = step(context, within)
    if stepped.has_closure or stepped.scaler is not None:
        message = f"`{text_of(stepped.call)}` does more than step"
        raise refusal(message, stepped.region.module, stepped.call)


def _check_backward(context: RewriteContext, within: Iteration) -> BackwardSite:
    site = backward(context, within)
    if site.scaler is not None or site.driver is not None or site.call.args or site.call.keywords:
        raise refusal(f"`{text_of(site.call)}` is no plain backward pass", site.region.module, site.call)
    for module, call in context.program.nodes_of(ast.Call):
        if last_name(call.func) == "backward" and call is not site.call:
            raise refusal("A second backward pass would train one of the runs", module, call)
        if qualified_name(module, call.func) == "torch.autograd.grad":
            raise refusal("`torch.autograd.grad` would see one of the runs", module, call)
    for module, node in context.program.nodes_of(ast.Attribute):
        if node.attr == "grad" and not dotted(node).startswith(("torch.", "autograd.")):
            raise refusal(
                f"`{text_of(node)}` is a gradient, which only the stacked weights have", module, node
            )
    return site


def _check_calls(context: RewriteContext, made: Construction) -> None:
    """Refuses calls that PyTorch cannot make for several models, or would make for all of them together."""
    for module, call in compiling_calls(context):
        raise refusal("The script compiles its model", module, call, hint="Remove the compilation first.")
    for each in checkpoint_calls(context):
        raise refusal("torch.func cannot batch a checkpoint", each.module, each.call)
    for module, call in context.program.nodes_of(ast.Call):
        name = last_name(call.func)
        if name in _NAMES:
            raise refusal(_NAMES[name], module, call)
    for module, node in context.program.nodes_of(ast.ClassDef):
        if any(qualified_name(module, base).endswith("autograd.Function") for base in node.bases):
            raise refusal(f"torch.func cannot batch `{node.name}`, an autograd function", module, node)
    inside = {id(each) for statement in made.loads for each in ast.walk(statement)}
    for module, call in context.program.calls_of("load_state_dict"):
        if id(call) not in inside:
            raise refusal("A saved state would be loaded into one of the runs", module, call)


def _check_layers(context: RewriteContext) -> None:
    """Refuses layers without a batching rule: those that ran, or all in the program if none is recorded."""
    for one in context.profile.modules:
        if one.library and one.class_name in UNBATCHED:
            place = one.created_line
            raise RewriteRefused(
                f"torch.func cannot batch the {one.class_name} {one.path}",
                file=place.file if place else context.profile.script,
                line=place.line if place else 0,
            )
        if one.checkpointed:
            raise RewriteRefused(
                f"torch.func cannot batch the checkpoint of {one.path}", file=context.profile.script
            )
    for module, call in context.program.nodes_of(ast.Call):
        name = layer_class(module, call.func)
        if name in UNBATCHED and not context.profile.modules:
            raise refusal(f"torch.func cannot batch {name}", module, call)
        for keyword in call.keywords if name else ():
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else ...
            if (keyword.arg, value) == ("sparse", True):
                raise refusal("torch.func has no sparse gradients", module, call)
            if (keyword.arg, value) == ("momentum", None) and "Norm" in name:
                raise refusal(f"torch.func cannot batch the cumulative statistics of {name}", module, call)
            if keyword.arg == "max_norm" and value is not None:
                raise refusal(f"{name} changes its weights in the forward pass", module, call)


def _model_classes(context: RewriteContext) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The classes of modules in the trained model; if unknown, all classes with a ``forward``."""
    known = {one.class_name for one in context.profile.modules if not one.library}
    for module, node in context.program.nodes_of(ast.ClassDef):
        if any(isinstance(each, Function) and each.name == "forward" for each in node.body) and (
            node.name in known or not known
        ):
            yield module, node


def _check_class(module: Module, owner: ast.ClassDef) -> None:
    """Refuses a forward pass that stores or reads values, and random numbers other than initial parameters."""
    for function in _reached(owner):
        for node in ast.walk(function):
            if not isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
                continue
            stored = not isinstance(node, ast.Call) and isinstance(node.ctx, ast.Store)
            if stored and dotted(_root(node)).startswith("self."):
                raise refusal(f"The forward pass changes `{text_of(node)}`", module, node)
            if stored and isinstance(node, ast.Subscript):
                message = (
                    f"The forward pass writes into `{text_of(node.value)}`, which may be one for all runs"
                )
                raise refusal(message, module, node)
            if isinstance(node, ast.Call) and last_name(node.func) in _VALUES:
                raise refusal(f"The forward pass reads values: `{text_of(node)}`", module, node)
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and qualified_name(module, node.func).startswith(
            ("numpy.random.", "np.random.", "random.", "torch.manual_seed")
        ):
            message = f"`{text_of(node)}` in the model does not follow the seed of a run"
            raise refusal(message, module, node)
        if isinstance(node, ast.Assign) and _is_drawn(module, node):
            message = f"`{text_of(node)}` is random, and neither a parameter nor a buffer"
            raise refusal(message, module, node)


def _root(node: ast.AST) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.expr) else ast.Name("")


def _is_drawn(module: Module, statement: ast.Assign) -> bool:
    """True for ``self.noise = torch.randn(4)``."""
    calls = [each for each in ast.walk(statement.value) if isinstance(each, ast.Call)]
    names = {qualified_name(module, call.func) for call in calls}
    kept = any(name.rpartition(".")[2] in ("Parameter", "Buffer") for name in names)
    to_self = any(dotted(target).startswith("self.") for target in statement.targets)
    return to_self and not kept and any(name in {f"torch.{each}" for each in _DRAWS} for name in names)


def _reached(owner: ast.ClassDef) -> list[Function]:
    """``forward`` and the methods of the class that it calls."""
    methods = {each.name: each for each in owner.body if isinstance(each, Function)}
    found: dict[str, Function] = {}
    waiting = ["forward"]
    while waiting:
        name = waiting.pop()
        if name in found or name not in methods:
            continue
        found[name] = methods[name]
        waiting += [
            node.attr
            for node in ast.walk(methods[name])
            if isinstance(node, ast.Attribute) and dotted(node) == f"self.{node.attr}"
        ]
    return list(found.values())


def _check_decisions(within: Iteration, site: BackwardSite) -> None:
    """Raises RewriteRefused if the loss of one run decides how all of them train."""
    loss = dotted(site.loss)
    for region, node in within.nodes(ast.If, ast.While, ast.IfExp, ast.Assert):
        if node is within.loop:
            continue
        named = {each for each in ast.walk(node.test) if isinstance(each, ast.Name | ast.Attribute)}
        if region.node is site.region.node and any(dotted(each) == loss for each in named):
            raise refusal(f"`{text_of(node.test)}` decides by the loss of one run", region.module, node)
        told = {word for each in named for word in words(last_name(each))}
        if told & _OWN_LOSS and isinstance(node, ast.If | ast.While) and _trains(node):
            message = f"`{text_of(node.test)}` of one run decides how all runs train"
            raise refusal(message, region.module, node)


def _trains(node: ast.If | ast.While) -> bool:
    """True if a block leaves the loop, or calls or changes something that trains."""
    for each in ast.walk(node):
        if isinstance(each, ast.Break | ast.Continue | ast.Return | ast.Raise):
            return True
        if isinstance(each, ast.Call) and last_name(each.func) in _TRAINS:
            return True
        if isinstance(each, ast.Attribute) and each.attr == "param_groups":
            return True
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and "lr" in words(each.id):
            return True
    return False
