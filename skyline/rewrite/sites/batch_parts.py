"""The names of the batch's tensors, and a check that the loss is a plain mean over its samples."""

from __future__ import annotations

import ast

from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import ROUTE
from skyline.rewrite.sites.passes import ForwardSite
from skyline.source.arguments import qualified_name
from skyline.source.origin import Frame, Instance
from skyline.source.program import Module
from skyline.source.text import Function, dotted, last_name, text_of

_MEANS = {
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss", "cosine_embedding_loss",
}  # fmt: skip
_MEAN_CLASSES = {
    *("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss"),
    *("BCEWithLogitsLoss", "SoftMarginLoss", "CosineEmbeddingLoss"),
}
_KEEP_SHAPE = {
    *("to", "cuda", "cpu", "type", "float", "double", "half", "bfloat16", "int", "long", "bool"),
    *("contiguous", "clone", "detach", "requires_grad_"),
}
"""Methods that keep the shape of a tensor."""
_WEIGHING = {"weight", "ignore_index", "pos_weight"}
"""Arguments that make a mean weight samples differently."""


def check_mean(context: RewriteContext, site: ForwardSite) -> None:
    """Refuses a loss that is not known to be a mean over the samples."""
    module, last = site.module, site.statements[-1]
    value = last.value if isinstance(last, ast.Assign | ast.AnnAssign) else None
    if not isinstance(value, ast.Call):
        raise refusal(f"`{text_of(last)}` is not known to be a mean over the samples", module, last)
    if any(value is call for call in site.calls) and isinstance(last, ast.Assign):
        _check_returned(context, site, last, value)
        return
    if last_name(value.func) == "mean" and not value.args and not value.keywords:
        return
    if qualified_name(module, value.func).startswith("torch.") and last_name(value.func) in _MEANS:
        _check_plain(module, value)
        return
    made = _made(context, site, value.func)
    if made is not None:
        _check_plain(*made)
        return
    raise refusal(f"`{text_of(value)}` is not known to be a mean over the samples", module, value)


def _check_returned(context: RewriteContext, site: ForwardSite, last: ast.Assign, call: ast.Call) -> None:
    """Refuses a loss that the model returns, unless its ``forward`` clearly computes it as a mean."""
    said = f"`{text_of(call)}` gives the loss, which is not known to be a mean over the samples"
    given = returned_by_model(context, site.region.frame, call, _place_of(last.targets[0], site.loss))
    if given is None:
        raise refusal(said, site.module, call)
    module, values = given
    for value in values:
        if isinstance(value, ast.Constant) and value.value is None:
            continue
        name = qualified_name(module, value.func) if isinstance(value, ast.Call) else ""
        if not isinstance(value, ast.Call) or not (
            name.startswith("torch.") and last_name(value.func) in _MEANS
        ):
            raise refusal(said, module, value)
        _check_plain(module, value)


def _place_of(target: ast.expr, loss: str) -> int | None:
    """The position of the loss among several results. None if there is only one."""
    if not isinstance(target, ast.Tuple | ast.List):
        return None
    places = [place for place, each in enumerate(target.elts) if dotted(each) == loss]
    return places[0] if places else None


def _made(context: RewriteContext, site: ForwardSite, callee: ast.expr) -> tuple[Module, ast.Call] | None:
    """The call that made a loss function of torch.nn, if this name is bound only once."""
    if isinstance(callee, ast.Call):
        known = qualified_name(site.module, callee.func)
        return (site.module, callee) if _is_class(known) else None
    name = dotted(callee)
    found: list[tuple[Module, ast.expr]] = []
    for module, node in context.program.nodes_of(ast.Assign):
        if any(
            dotted(target) == name for target in node.targets if isinstance(target, ast.Name | ast.Attribute)
        ):
            found.append((module, node.value))
    if len(found) != 1:
        return None
    module, value = found[0]
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("to", "cuda")
    ):
        value = value.func.value
    if isinstance(value, ast.Call) and _is_class(qualified_name(module, value.func)):
        return module, value
    return None


def _is_class(name: str) -> bool:
    return name.startswith("torch.nn.") and name.rpartition(".")[2] in _MEAN_CLASSES


def _check_plain(module: Module, call: ast.Call) -> None:
    for keyword in call.keywords:
        value = keyword.value
        mean = isinstance(value, ast.Constant) and value.value in ("mean", None)
        if keyword.arg in (*_WEIGHING, "reduction", "reduce", "size_average", None) and not mean:
            raise refusal(f"`{text_of(call)}` is not a plain mean over the samples", module, call)
    if last_name(call.func) in _MEAN_CLASSES and call.args:
        raise refusal(f"`{text_of(call)}` is not a plain mean over the samples", module, call)


def batch_names(context: RewriteContext, site: ForwardSite) -> tuple[str, ...]:
    """The names of the batch's tensors that forward pass and loss read, in that order.

    They come from the target of the loop over the loader, directly or through assignments in its body. Or
    they come from a call there, as in ``x, y = get_batch()``, if the run showed that the tensors which enter
    the model are the batch.
    """
    module, region = site.module, site.region
    loop = region.node
    if not isinstance(loop, ast.For | ast.While):
        raise refusal("The batch does not come from a loop in the same function", module, site.calls[0])
    assert isinstance(loop, ast.For | ast.While)
    tensors, whole = _of_target(loop) if isinstance(loop, ast.For) else (set[str](), set[str]())
    entering = {each.id for call in site.calls for each in call.args if isinstance(each, ast.Name)}
    drawn = set[str]()
    for statement in loop.body:
        if statement is site.statements[0]:
            break
        if isinstance(statement, ast.Assign):
            _follow(statement, tensors, whole, entering)
            drawn |= _drawn(context, site, statement)
    if not tensors | whole:
        tensors = drawn
    read: dict[str, ast.Name] = {}
    bound: set[str] = set()
    for statement in site.statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in whole - tensors:
                    raise refusal(
                        f"`{node.id}` holds the batch in a way that cannot be divided", module, node
                    )
                if node.id in tensors and node.id not in bound:
                    read.setdefault(node.id, node)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if node.id in tensors:
                    raise refusal(f"`{node.id}` is bound again in the forward pass", module, node)
                bound.add(node.id)
    if not read:
        raise refusal("The forward pass reads nothing that is known to be the batch", module, site.calls[0])
    return tuple(sorted(read, key=lambda name: (read[name].lineno, read[name].col_offset)))


def _drawn(context: RewriteContext, site: ForwardSite, statement: ast.Assign) -> set[str]:
    """The names that a statement of the loop gives to the results of one call, if all enter the model unchanged."""
    batch = context.profile.batch
    if batch.leading_dimensions != (context.profile.batch_size,) or len(statement.targets) != 1:
        return set()
    target = statement.targets[0]
    names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if not isinstance(statement.value, ast.Call) or not all(isinstance(each, ast.Name) for each in names):
        return set()
    bound = {each.id for each in names if isinstance(each, ast.Name)}
    (call,) = site.calls if len(site.calls) == 1 else (None,)
    if call is None:
        return set()
    entering = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bound if bound <= {each.id for each in entering if isinstance(each, ast.Name)} else set()


def _of_target(loop: ast.For) -> tuple[set[str], set[str]]:
    """The names of single tensors in a loop's target, and the names of whole batches."""
    target, given = loop.target, loop.iter
    while isinstance(given, ast.Call) and last_name(given.func) in ("enumerate", "tqdm", "trange"):
        if last_name(given.func) == "enumerate":
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                return set(), set()
            target = target.elts[1]
        if not given.args:
            break
        given = given.args[0]
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "range":
        return set(), set()
    if isinstance(target, ast.Tuple | ast.List):
        return {each.id for each in target.elts if isinstance(each, ast.Name) and each.id != "_"}, set()
    return set(), {target.id} if isinstance(target, ast.Name) else set()


def _follow(statement: ast.Assign, tensors: set[str], whole: set[str], entering: set[str]) -> None:
    """Follows ``x = x.to(device)``, ``x, y = x.cuda(), y.cuda()`` and ``x, y = batch`` to tensors of the batch.

    ``entering`` are names that the model is called with: the run showed the first dimension of these tensors.
    """
    known = tensors | whole
    for target in statement.targets:
        names = (
            [each.id for each in target.elts if isinstance(each, ast.Name)]
            if isinstance(target, ast.Tuple | ast.List)
            else [target.id]
            if isinstance(target, ast.Name)
            else []
        )
        read = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        if not read & known:
            for name in names:
                tensors.discard(name)
                whole.discard(name)
        elif _keeps_samples(statement.value, target, entering):
            tensors.update(names)
            whole.difference_update(names)
        else:
            whole.update(names)
            tensors.difference_update(names)


def _keeps_samples(value: ast.expr, target: ast.expr, entering: set[str]) -> bool:
    """True if the assigned values are tensors of the batch with all samples in the same order.

    The run showed the first dimension of the tensors with names in ``entering``.
    """
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List):
            pairs = zip(value.elts, target.elts, strict=False)
            return all(_keeps_samples(each, name, entering) for each, name in pairs)
        return isinstance(value, ast.Name)
    seen = isinstance(target, ast.Name) and target.id in entering
    match value:
        case ast.Call(func=ast.Attribute(value=owner)) if _keeps_first_dimension(value, seen=seen):
            return isinstance(owner, ast.Name) or _keeps_samples(owner, target, entering)
        case ast.BinOp(left=left, right=ast.Constant()):
            return isinstance(left, ast.Name) or _keeps_samples(left, target, entering)
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=int() | str())):
            return True
        case ast.Subscript(
            value=ast.Name(), slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), *_])
        ):
            return True
        case _:
            return False


def _keeps_first_dimension(call: ast.Call, *, seen: bool) -> bool:
    """True if a method of a tensor keeps its first dimension, and what is in each place of it."""
    assert isinstance(call.func, ast.Attribute)
    name, given = call.func.attr, [*call.args, *(each.value for each in call.keywords)]
    numbers = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    match name:
        case "unsqueeze":
            return len(numbers) == 1 == len(given) and numbers[0] >= 1
        case "squeeze" | "flatten" | "transpose":
            return bool(given) and len(numbers) == len(given) and min(numbers) >= 1
        case "permute":
            return bool(numbers) and len(numbers) == len(given) and numbers[0] == 0
        case "view" | "reshape":
            return len(given) > 1 and (_is_first_size(given[0]) or (seen and text_of(given[0]) == "-1"))
        case _:
            return name in _KEEP_SHAPE


def _is_first_size(value: ast.expr) -> bool:
    """True for ``x.size(0)``, ``x.shape[0]`` and ``len(x)``."""
    match value:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[_]):
            return True
        case _:
            return False


def returned_by_model(
    context: RewriteContext, frame: Frame, call: ast.Call, place: int | None
) -> tuple[Module, tuple[ast.expr, ...]] | None:
    """All expressions that may be one result of a model, with the file of its class.

    ``place`` is the position of the result, None if there is only one. None if the class or the value of a
    variable is not known for certain.
    """
    models = [
        found for found in context.resolver.meant(call.func, frame, ROUTE) if isinstance(found, Instance)
    ]
    if len({id(found.of.node) for found in models}) != 1:
        return None
    module = models[0].of.module
    forwards = [
        each for each in models[0].of.node.body if isinstance(each, Function) and each.name == "forward"
    ]
    if len(forwards) != 1:
        return None
    values: list[ast.expr] = []
    for node in _own_nodes(forwards[0]):
        if isinstance(node, ast.Return):
            value = _result(node.value, place)
            held = None if value is None else _held(forwards[0], value)
            if held is None:
                return None
            values += held
    return (module, tuple(values)) if values else None


def _result(value: ast.expr | None, place: int | None) -> ast.expr | None:
    if place is None:
        return value
    if isinstance(value, ast.Tuple) and place < len(value.elts):
        return value.elts[place]
    return None


def _held(function: Function, value: ast.expr) -> list[ast.expr] | None:
    """The possible values of an expression: itself, or all values that the function gives to its name."""
    if not isinstance(value, ast.Name):
        return [value]
    found: list[ast.expr] = []
    bound = 0
    for node in _own_nodes(function):
        if isinstance(node, ast.Name) and node.id == value.id and isinstance(node.ctx, ast.Store):
            bound += 1
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == value.id for target in node.targets
        ):
            found.append(node.value)
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    given = any(each.arg == value.id for each in arguments)
    return found if found and len(found) == bound and not given else None


def _own_nodes(function: Function) -> list[ast.AST]:
    """The nodes of a function without the nodes of inner functions."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found
