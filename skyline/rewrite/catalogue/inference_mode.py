"""Evaluates without gradients: ``torch.inference_mode`` if only numbers leave it, else ``torch.no_grad``.

Tensors made in inference mode can never be part of a backward pass. ``no_grad`` allows that, so it is used if
a tensor may go on to training, as the result of a function or kept by a model for its next call.
"""

from __future__ import annotations

import ast
import sys

from skyline.rewrite.blocks import insert_before, wrap
from skyline.rewrite.context import RewriteContext, check_switched_on, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.evaluation import EvaluationSite, GradientsOff, evaluations, switched_off
from skyline.rewrite.sites.iteration import framework
from skyline.rewrite.unwrapping import without_decorator, without_item
from skyline.source.text import Function, TextEdit, dotted, is_text, last_name, text_of

NAME = "inference_mode"
_NUMBERS = (
    "item", "float", "int", "len", "round", "sum", "tolist", "perf_counter", "time", "max", "min", "exp",
)  # fmt: skip
_KEEP_NOTHING = {
    *sys.stdlib_module_names, "torch", "torchvision", "torchaudio", "numpy", "tqdm", "matplotlib",
    "sklearn", "pandas", "PIL", "scipy", "tensorboard", "tensorboardX", "wandb", "rich", "yaml",
    "omegaconf", "hydra", "cv2", "datasets", "tiktoken",
}  # fmt: skip
"""Packages that define no models."""
_KEEPERS = ("append", "extend", "add", "update", "put", "setdefault", "insert")


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Adds a decorator to functions that only evaluate, and ``with`` around evaluating statements in others."""
    check_switched_on(NAME, value)
    owner = framework(context)
    if owner is not None and owner.owns_loop:
        raise refusal(f"{owner.title} switches the recording off by itself", owner.module, owner.call)
    edits: list[TextEdit] = []
    keeps = _model_may_keep(context)
    for site in evaluations(context):
        edits += _without_gradients(site, keeps)
    return tuple(dict.fromkeys(edits))


def _without_gradients(site: EvaluationSite, keeps: bool) -> tuple[TextEdit, ...]:
    module, function = site.module, site.function
    if function is None:
        name = usable(module, "torch.no_grad", at=site.statements[0])
        return (*name.edits, *wrap(module, site.statements, f"with {name.text}():"))
    if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(function)):
        message = f"`{function.name}` is a generator, and its caller may train between two results"
        raise refusal(message, module, function)
    target = "torch.inference_mode" if _gives_numbers(function) and not keeps else "torch.no_grad"
    name = usable(module, target, at=function)
    if not function.decorator_list:
        return (*name.edits, *insert_before(module, function, f"@{name.text}()"))
    body = function.body[1:] if is_text(function.body[0]) and len(function.body) > 1 else function.body
    return (*name.edits, *wrap(module, body, f"with {name.text}():"))


def _model_may_keep(context: RewriteContext) -> bool:
    """True if a model may keep tensors from one call to the next, such as a cache of positions.

    The source shows it for modules of the program; of libraries, only PyTorch's own are known to keep none.
    """
    for module, node in context.program.nodes_of(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.ImportFrom) and node.level:
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            local = context.program.find_module(module, name) is not None
            if not local and name.partition(".")[0] not in _KEEP_NOTHING:
                return True
    for _, node in context.program.nodes_of(ast.ClassDef):
        methods = [each for each in node.body if isinstance(each, Function)]
        if any(each.name == "forward" for each in methods):
            stored = (
                each
                for method in methods
                if method.name != "__init__"
                for each in ast.walk(method)
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
            )
            if any(dotted(each.value) == "self" for each in stored):
                return True
    return False


def _gives_numbers(function: Function) -> bool:
    """True if only numbers can leave a function, as results or in anything that it stores elsewhere."""
    own = [node for statement in function.body for node in ast.walk(statement)]
    for node in own:
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.Global | ast.Nonlocal | ast.Lambda | Function):
            return False
        if (
            isinstance(node, ast.Call)
            and last_name(node.func) in _KEEPERS
            and not all(_is_number(each, own, frozenset()) for each in node.args)
        ):
            return False
    returned = [node.value for node in own if isinstance(node, ast.Return) and node.value is not None]
    return all(_is_number(value, own, frozenset()) for value in returned)


def _is_number(node: ast.expr, own: list[ast.AST], seen: frozenset[str]) -> bool:
    match node:
        case ast.Constant() | ast.JoinedStr() | ast.Compare():
            return not isinstance(node, ast.Compare) or _is_number(node.left, own, seen)
        case ast.Call(func=function, args=arguments):
            name = last_name(function)
            if name in ("sum", "max", "min", "round") and isinstance(function, ast.Attribute):
                return False  # methods of a tensor give tensors
            if name in ("sum", "max", "min"):
                return all(_is_number(each, own, seen) for each in arguments)
            return name in _NUMBERS
        case ast.Name(id=name):
            return name in seen or _is_counted(name, own, seen | {name})
        case ast.BinOp(left=left, right=right):
            return _is_number(left, own, seen) and _is_number(right, own, seen)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand, own, seen)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return all(_is_number(each, own, seen) for each in elements)
        case ast.Dict(values=values):
            return all(_is_number(each, own, seen) for each in values)
        case ast.IfExp(body=body, orelse=other):
            return _is_number(body, own, seen) and _is_number(other, own, seen)
        case _:
            return False


def _is_counted(name: str, own: list[ast.AST], seen: frozenset[str]) -> bool:
    """True if every value that the function assigns to a variable is a number."""
    values: list[ast.expr] = []
    for node in own:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name) and target.id == name:
                        values.append(value)
                    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        pairs = zip(target.elts, value.elts, strict=False)
                        values += [each for to, each in pairs if isinstance(to, ast.Name) and to.id == name]
                    elif any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)):
                        return False
            case ast.AugAssign(target=ast.Name(id=to), value=value) if to == name:
                values.append(value)
            case ast.For(target=target) | ast.comprehension(target=target):
                if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)):
                    return False
            case _:
                continue
    return bool(values) and all(_is_number(value, own, seen) for value in values)


def present(context: RewriteContext) -> str | None:
    """``on`` if an evaluation switches the recording of gradients off."""
    return "on" if switched_off(context) else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Lets evaluation record gradients; refused if its operations are not allowed on recorded tensors."""
    found = switched_off(context)
    for site in found:
        _check_needs_none(site)
    return context.in_turn(_without_next for _ in found)


def _without_next(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the innermost remaining place; those around it follow later."""
    site = max(switched_off(context), key=lambda each: (each.owner.lineno, each.owner.col_offset))
    if isinstance(site.owner, ast.With):
        assert isinstance(site.switch, ast.withitem)
        return without_item(site.module, site.owner, site.switch)
    assert isinstance(site.switch, ast.expr)
    return without_decorator(site.module, site.switch)


def _check_needs_none(site: GradientsOff) -> None:
    for node in ast.walk(site.owner):
        called = node.func if isinstance(node, ast.Call) else None
        if not isinstance(called, ast.Attribute):
            continue
        in_place = (
            called.attr.endswith("_") and not called.attr.startswith("_") and called.attr != "requires_grad_"
        )
        to_numpy = called.attr == "numpy" and "detach" not in ast.unparse(called)
        if in_place or to_numpy:
            message = f"`{text_of(called)}(…)` may fail on tensors whose gradients are recorded"
            hint = "Write .detach() before it first." if to_numpy else "Remove it by hand."
            raise refusal(message, site.module, called, hint=hint)
