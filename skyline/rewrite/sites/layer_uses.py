"""Uses of layers that depend on the layer's class: its weight, its sizes, a library function that takes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.layers import layer_class
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.scope import BindingKind
from skyline.source.text import Function, last_name, text_of
from skyline.trace.facts import ModuleFact

_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
_WEIGHTS = ("weight", "bias")
_SIZES = ("in_features", "out_features", "num_embeddings", "embedding_dim", "padding_idx")
_TAKES_A_LAYER = ("torch.nn.utils", "torch.ao", "torch.quantization")
"""Modules with functions that work on the weight of a layer."""
_ASKING = ("isinstance", "hasattr", "type", "getattr")
_OF_CLASSES = re.compile(r"isinstance|type|class", re.IGNORECASE)


def check_replaceable(
    context: RewriteContext, layers: Iterable[ModuleFact], calls: Iterable[tuple[Module, ast.Call]], kind: str
) -> None:
    """Refuses if a use of layers of a class needs them to be of that class.

    The check goes by names: an attribute with the name of one of the layers counts as that layer, whatever
    its object. The parts of a replacement are PyTorch layers, so code that tests the class first is safe. One
    of the parts is a linear layer without a bias, so code that initializes the biases of all linear layers is
    not safe.
    """
    names = {name for layer in layers for name in _names(context, layer)}
    for module, call in calls:
        _check_call(module, call)
    for module, node in context.program.nodes_of(ast.Attribute):
        if node.attr in (*_WEIGHTS, *_SIZES):
            _check_part(module, node, names, kind)
        elif node.attr in names and isinstance(node.ctx, ast.Load):
            _check_read(module, node)
    for module, call in context.program.nodes_of(ast.Call):
        _check_class_test(module, call, kind)
    _check_texts(context, names)


def _check_class_test(module: Module, call: ast.Call, kind: str) -> None:
    """Refuses if one of several layers is selected by its class, which a replacement does not have.

    Code that goes through all modules of a model, or gets each from ``apply``, also finds the parts of a replacement.
    Code that only fills the weight of each layer leaves a replacement as it is made.
    """
    match call:
        case ast.Call(func=ast.Name(id="isinstance"), args=[tested, classes]):
            kinds = classes.elts if isinstance(classes, ast.Tuple) else [classes]
        case _:
            return
    if kind not in (layer_class(module, each) for each in kinds):
        return
    if not _is_any_module(module, tested) and not _fills_weight(module, call, tested):
        message = f"`{text_of(call)}` selects layers by their class, which the new layers do not have"
        raise refusal(message, module, call, hint="Make the change by hand.")


def _is_any_module(module: Module, tested: ast.expr) -> bool:
    """True for an argument of a function, and for a name that goes through all modules of a model."""
    known = module.scope(tested).lookup(tested.id) if isinstance(tested, ast.Name) else None
    if known is None:
        return False
    for binding in known[1]:
        match binding.kind, binding.value:
            case BindingKind.PARAMETER, _:
                continue
            case BindingKind.LOOP, ast.Call(func=ast.Attribute(attr="modules" | "named_modules")):
                continue
            case _:
                return False
    return True


def _fills_weight(module: Module, call: ast.Call, tested: ast.expr) -> bool:
    """True if the statement under the test uses the weight or the bias of the tested object."""
    around = next((each for each in module.around(call) if isinstance(each, ast.If)), None)
    if around is None or not any(each is call for each in ast.walk(around.test)):
        return False
    used = ast.unparse(tested)
    return any(
        isinstance(part, ast.Attribute) and part.attr in _WEIGHTS and ast.unparse(part.value) == used
        for statement in around.body
        for part in ast.walk(statement)
    )


def _names(context: RewriteContext, layer: ModuleFact) -> set[str]:
    """The attribute that holds a layer, and the names of its containers."""
    classes = {module.path: module.class_name for module in context.profile.modules}
    found: set[str] = set()
    path = layer.path
    while True:
        path, _, name = path.rpartition(".")
        found |= {name} if path and not name.isdecimal() else set[str]()
        if classes.get(path) not in _CONTAINERS:
            return found


def _check_call(module: Module, call: ast.Call) -> None:
    """Refuses if the layer is passed to a function that works on its weight."""
    around = module.parents[call]
    if isinstance(around, ast.Call) and _takes_a_layer(module, around):
        message = f"`{text_of(around.func)}` works on the weight of the layer that is made here"
        raise refusal(message, module, call, hint="Make the change by hand.")


def _takes_a_layer(module: Module, call: ast.Call) -> bool:
    name = qualified_name(module, call.func)
    return any(name == package or name.startswith(f"{package}.") for package in _TAKES_A_LAYER)


def _check_part(module: Module, node: ast.Attribute, names: set[str], kind: str) -> None:
    """Refuses the use of a weight or a size if it may belong to a layer that is to be replaced."""
    owner = node.value
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    match owner:
        case ast.Attribute(attr=name):
            safe = name not in names
        case ast.Name(id="self" | "cls"):
            safe = True
        case ast.Name() if node.attr == "bias":
            safe = not _needs_biases(module, node) or _is_another(module, owner, names, kind)
        case ast.Name():
            # A size of that name may belong to a configuration.
            safe = (
                node.attr != "weight" or _is_asked(module, owner) or _is_another(module, owner, names, kind)
            )
        case ast.Call():
            safe = last_name(owner.func) == "super" or layer_class(module, owner.func) not in ("", kind)
        case _:
            safe = False
    if not safe:
        line = module.source.line(node.lineno).strip()
        message = f"`{text_of(node)}` is used in `{line}`: the new layers have no such {_word(node.attr)}"
        raise refusal(message, module, node, hint="Make the change by hand.")


def _word(attribute: str) -> str:
    return attribute if attribute in _WEIGHTS else "size"


def _is_asked(module: Module, name: ast.Name) -> bool:
    """True if the enclosing function tests the class of the object."""
    ground = next(each for each in module.around(name) if isinstance(each, Function | ast.Module))
    for node in ast.walk(ground):
        match node:
            case ast.Call(func=ast.Name(id=function), args=[ast.Name(id=asked), *_]):
                if function in _ASKING and asked == name.id:
                    return True
            case ast.Attribute(value=ast.Name(id=asked), attr="__class__") if asked == name.id:
                return True
            case _:
                continue
    return False


def _needs_biases(module: Module, node: ast.Attribute) -> bool:
    """True if code uses a bias as a tensor, of linear layers too, without testing that there is one."""
    user = module.parents[node]
    filled = isinstance(user, ast.Call) and "init" in qualified_name(module, user.func).split(".")
    if not filled and not isinstance(user, ast.Attribute):
        return False
    around: list[ast.AST] = []
    for each in module.around(node):
        if isinstance(each, Function | ast.Module):
            break
        around.append(each)
    tests = [each.test for each in around if isinstance(each, ast.If)]
    if any(_asks_for_bias(test) for test in tests):
        return False
    # The nearest test of a class decides; for an `elif` it is the test of that branch.
    classes = next((text for text in map(ast.unparse, tests) if _OF_CLASSES.search(text)), "")
    return not classes or "Linear" in classes


def _asks_for_bias(test: ast.expr) -> bool:
    """True if a test reads the bias of an object; ``hasattr`` is also true for an object without a bias."""
    for part in ast.walk(test):
        match part:
            case ast.Attribute(attr="bias"):
                return True
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="bias"), *_]):
                return True
            case _:
                continue
    return False


def _is_another(module: Module, name: ast.Name, names: set[str], kind: str) -> bool:
    """True if a name only stands for layers of other PyTorch classes, or attributes of other names."""
    known = module.scope(name).lookup(name.id)
    bindings = known[1] if known is not None else []
    given: list[ast.expr] = []
    for binding in bindings:
        match binding.kind, binding.value:
            case BindingKind.ASSIGNED, ast.Call() as call if not binding.unpack:
                given.append(call)
            case BindingKind.LOOP, ast.Tuple(elts=elements) | ast.List(elts=elements):
                given += elements
            case _:
                return False
    return bool(given) and all(_is_other(module, value, names, kind) for value in given)


def _is_other(module: Module, value: ast.expr, names: set[str], kind: str) -> bool:
    match value:
        case ast.Attribute(attr=name):
            return name not in names
        case ast.Call():
            return layer_class(module, value.func) not in ("", kind, *_CONTAINERS)
        case _:
            return False


def _check_read(module: Module, node: ast.Attribute) -> None:
    """Refuses if a layer, or its container, gets a second name or is passed to a function that uses its weight."""
    inner: ast.AST = node
    around = module.parents[inner]
    while isinstance(around, ast.Subscript) and around.value is inner:
        inner, around = around, module.parents[around]
    if isinstance(around, ast.Call) and inner is not around.func and _takes_a_layer(module, around):
        message = f"`{text_of(around.func)}` works on the weight of `{text_of(node)}`"
        raise refusal(message, module, node, hint="Make the change by hand.")
    if isinstance(around, ast.Assign) and around.value is inner:
        targets = [target for target in around.targets if isinstance(target, ast.Attribute)]
        if targets:
            message = f"`{text_of(around)}` gives the layer a second name"
            raise refusal(message, module, node, hint="Make the change by hand.")


def _check_texts(context: RewriteContext, names: set[str]) -> None:
    """Refuses a text that names a weight of the layers, such as the key of a state."""
    if not names:
        return
    joined = "|".join(map(re.escape, sorted(names)))
    keys = re.compile(rf"(?:^|\W)(?:{joined})(?:\.\d+)*\.(?:weight|bias)\b")
    for module, node in context.program.nodes_of(ast.Constant):
        if isinstance(node.value, str) and keys.search(node.value) and not _is_docstring(module, node):
            message = f"The text {node.value[:60]!r} names a weight that the new layers do not have"
            raise refusal(message, module, node, hint="Make the change by hand.")


def _is_docstring(module: Module, node: ast.Constant) -> bool:
    return isinstance(module.parents[node], ast.Expr)
