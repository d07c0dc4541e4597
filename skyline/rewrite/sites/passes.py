"""The passes of an iteration: the calls of model, backward pass and optimizer, and of constructors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import preceding, statement_of, suite_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import ROUTE, Iteration, Region, function_called, iteration
from skyline.source.arguments import calls_at, qualified_name, torch_optimizer
from skyline.source.origin import Frame, Instance, Value
from skyline.source.program import Module
from skyline.source.scope import own_scope
from skyline.source.setting_names import words
from skyline.source.text import Function, dotted, last_name
from skyline.source.training_loop import OTHER_STEPPERS
from skyline.trace.facts import OptimizerFact

_OPTIMIZER_WORDS = {"optimizer", "optimizers", "optim", "opt", "scaler", "solver", "sgd", "adam", "adamw"}


@dataclass(frozen=True, slots=True, eq=False)
class StepSite:
    """``optimizer.step()`` or ``optimizer.zero_grad()`` in an iteration.

    ``optimizer`` is the object that steps; ``scaler`` is the gradient scaler of ``scaler.step(optimizer)``, if any.
    """

    region: Region
    call: ast.Call
    statement: ast.stmt
    optimizer: ast.expr
    scaler: ast.expr | None = None

    @property
    def has_closure(self) -> bool:
        """True if the step evaluates the loss itself, through a function that it takes."""
        given = len(self.call.args) + len(self.call.keywords)
        return given > (0 if self.scaler is None else 1)


def steps(context: RewriteContext, within: Iteration | None = None) -> tuple[StepSite, ...]:
    """Every step of an optimizer in an iteration, in the order of the text; maybe none."""
    found: list[StepSite] = []
    made = _optimizer_names(context)
    for region, call in (within or iteration(context)).nodes(ast.Call):
        if last_name(call.func) not in ("step", "optimizer_step") or not isinstance(call.func, ast.Attribute):
            continue
        owner = call.func.value
        named = set(words(ast.unparse(owner)))
        if not _is_optimizer(region, call, named, ast.unparse(owner), made):
            continue
        statement = statement_of(region.module, call)
        if "scaler" in named and call.args:
            found.append(StepSite(region, call, statement, call.args[0], owner))
        else:
            found.append(StepSite(region, call, statement, owner))
    return tuple(found)


def _is_optimizer(region: Region, call: ast.Call, named: set[str], text: str, made: set[str]) -> bool:
    """True if an object that steps is an optimizer or its scaler: by name, by its constructor, or by default."""
    if text in made or named & _OPTIMIZER_WORDS:
        return not named & {"scheduler", "sched"}
    if named & OTHER_STEPPERS or text == "self":
        return False
    bare = isinstance(region.module.parents.get(call), ast.Expr)
    return bare and not call.args and not call.keywords


def _optimizer_names(context: RewriteContext) -> set[str]:
    """The names that get the results of optimizer constructors."""
    return {
        ast.unparse(target)
        for module, node in context.program.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and torch_optimizer(module, node.value.func)
        for target in node.targets
    }


def step(context: RewriteContext, within: Iteration | None = None) -> StepSite:
    """The one step of an iteration; raises RewriteRefused if there is none, or more than one."""
    sites = steps(context, within)
    if not sites:
        raise RewriteRefused(
            "No `optimizer.step()` was found in the training loop", file=context.profile.script
        )
    first, *others = sites
    if others:
        lines = ", ".join(str(site.call.lineno) for site in sites)
        raise refusal(
            f"The loop has more than one `optimizer.step()`, on lines {lines}",
            first.region.module,
            first.call,
        )
    return first


def zero_grads(context: RewriteContext, within: Iteration | None = None) -> tuple[StepSite, ...]:
    """Every ``zero_grad()`` of optimizers and modules in an iteration; maybe none."""
    return tuple(
        StepSite(region, call, statement_of(region.module, call), call.func.value)
        for region, call in (within or iteration(context)).nodes(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"
    )


_DRIVERS = {"accelerator", "fabric", "engine", "model_engine", "manager", "booster"}


@dataclass(frozen=True, slots=True, eq=False)
class BackwardSite:
    """One call that starts the backward pass of ``loss``.

    ``scaler`` is the gradient scaler of ``scaler.scale(loss).backward()``. ``driver`` is the object of a
    framework that runs it, as in ``accelerator.backward(loss)``. Both are None for plain tensors.
    """

    region: Region
    call: ast.Call
    statement: ast.stmt
    loss: ast.expr
    scaler: ast.expr | None = None
    driver: ast.expr | None = None


def backwards(context: RewriteContext, within: Iteration | None = None) -> tuple[BackwardSite, ...]:
    """Every call in an iteration that starts a backward pass, in the order of the text; maybe none."""
    sites = (_site(region, call) for region, call in (within or iteration(context)).nodes(ast.Call))
    return tuple(site for site in sites if site is not None)


def backward(context: RewriteContext, within: Iteration | None = None) -> BackwardSite:
    """The one backward pass of an iteration; raises RewriteRefused if there is none, or more than one."""
    sites = backwards(context, within)
    if not sites:
        raise RewriteRefused("No `backward()` was found in the training loop", file=context.profile.script)
    if len(sites) > 1:
        lines, first = ", ".join(str(site.call.lineno) for site in sites), next(iter(sites))
        message = f"The loop has more than one `backward()`, on lines {lines}"
        raise refusal(message, first.region.module, first.call)
    return next(iter(sites))


def _site(region: Region, call: ast.Call) -> BackwardSite | None:
    if last_name(call.func) not in ("backward", "manual_backward") or not isinstance(
        call.func, ast.Attribute
    ):
        return None
    statement, owner = statement_of(region.module, call), call.func.value
    if qualified_name(region.module, call.func) == "torch.autograd.backward":
        return BackwardSite(region, call, statement, call.args[0]) if call.args else None
    if isinstance(owner, ast.Call) and last_name(owner.func) == "scale" and owner.args:
        scaler = owner.func.value if isinstance(owner.func, ast.Attribute) else None
        return BackwardSite(region, call, statement, owner.args[0], scaler=scaler)
    driven = call.func.attr == "manual_backward" or last_name(owner).lower().lstrip("_") in _DRIVERS
    if driven and call.args:
        return BackwardSite(region, call, statement, call.args[0], driver=owner)
    return BackwardSite(region, call, statement, owner)


Accept = Callable[[OptimizerFact], bool]


def optimizer_calls(
    context: RewriteContext, classes: tuple[str, ...] = (), accept: Accept | None = None
) -> tuple[tuple[Module, ast.Call], ...]:
    """The calls that made the optimizers which stepped, of these classes of torch.optim (empty: of any).

    ``accept`` filters the optimizers recorded in the run; without a run, the only such call is meant. Raises
    RewriteRefused if one of them was not made by a readable call.
    """
    told = context.profile.optimizers
    facts = [
        fact for fact in told if (not classes or fact.name in classes) and (accept is None or accept(fact))
    ]
    if not told:
        return (_only_call(context, classes),)
    found: dict[tuple[str, int, int], tuple[Module, ast.Call]] = {}
    for fact in facts:
        if "." in fact.name:
            line = fact.created_line
            raise RewriteRefused(
                f"{fact.name} is not a PyTorch optimizer",
                file=line.file if line is not None else "",
                line=line.line if line is not None else 0,
            )
        if fact.created_line is None:
            module, call = _only_call(context, (fact.name,))
        else:
            module, line = context.place(fact.created_line)
            calls = calls_at(
                module, line, lambda callee, module=module: bool(torch_optimizer(module, callee))
            )
            calls = [each for each in calls if torch_optimizer(module, each.func) == fact.name]
            if len(calls) != 1:
                what = "does not construct" if not calls else "constructs more than one"
                message = f"Line {line} {what} torch.optim.{fact.name} by name"
                raise RewriteRefused(message, file=module.path, line=line)
            call = calls[0]
        found[module.path, call.lineno, call.col_offset] = (module, call)
    return tuple(found.values())


def _only_call(context: RewriteContext, classes: tuple[str, ...]) -> tuple[Module, ast.Call]:
    calls = [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if (name := torch_optimizer(module, call.func)) and (not classes or name in classes)
    ]
    if len(calls) != 1:
        if len(classes) == 1:
            wanted = f"torch.optim.{classes[0]}"
        else:
            wanted = (
                f"one of torch.optim's {', '.join(classes)}" if classes else "an optimizer of torch.optim"
            )
        count = "No call constructs" if not calls else "More than one call constructs"
        raise RewriteRefused(f"{count} {wanted} by name", file=context.profile.script)
    return calls[0]


_MODEL_WORDS = {
    "model", "net", "network", "encoder", "decoder", "backbone", "classifier", "module", "transformer",
}  # fmt: skip
_NOT_FORWARD = {
    "parameters", "named_parameters", "train", "eval", "to", "cuda", "cpu", "state_dict", "load_state_dict",
    "zero_grad", "children", "modules", "named_modules", "no_sync", "requires_grad_", "half", "float", "buffers",
}  # fmt: skip
_MODULES = ("Module", "LightningModule")
_GIVES_ITSELF = {
    "to",
    "cuda",
    "cpu",
    "train",
    "half",
    "float",
    "double",
    "bfloat16",
    "requires_grad_",
    "apply",
}
_NOT_MODEL = {"criterion", "loss", "scaler", "print", "len", "range", "zip", "enumerate", "tqdm"}


@dataclass(frozen=True, slots=True, eq=False)
class ForwardSite:
    """Neighbouring statements of one block: the first calls the model, the last makes the loss.

    ``calls`` are their calls of models, ``loss`` is the target of the last one; empty if ``backward()`` is called on an
    expression.
    """

    region: Region
    statements: tuple[ast.stmt, ...]
    calls: tuple[ast.Call, ...]
    loss: str
    backward: BackwardSite

    @property
    def module(self) -> Module:
        """The file of the statements."""
        return self.region.module


def forward(context: RewriteContext, within: Iteration | None = None) -> ForwardSite:
    """The forward pass of the one backward pass; raises RewriteRefused if its limits are unknown."""
    within = within or iteration(context)
    site = backward(context, within)
    if not dotted(site.loss):
        message = f"The loss `{ast.unparse(site.loss)[:60]}` is computed where `backward()` is called"
        hint = "Give it a name on a line of its own first."
        raise refusal(message, site.region.module, site.call, hint=hint)
    found = _forward_of(context, site, preceding(site.region.module, site.statement, site.region.node))
    return found or _no_forward(site)


def forwards(context: RewriteContext, within: Iteration | None = None) -> tuple[ForwardSite, ...]:
    """The forward passes of all backward passes, as in adversarial training; raises RewriteRefused as ``forward``.

    Each begins behind the backward pass before it. A loss that is made of results of earlier forward passes alone has
    none of its own.
    """
    within = within or iteration(context)
    sites = {id(site.statement): site for site in backwards(context, within)}
    if len(sites) < 2:
        return (forward(context, within),)
    found: list[ForwardSite] = []
    for own, site in sites.items():
        before = preceding(site.region.module, site.statement, site.region.node)
        others = sites.keys() - {own}
        ends = [place for place, one in enumerate(before) if others & {id(node) for node in ast.walk(one)}]
        passed = _forward_of(context, site, before[ends[-1] + 1 :] if ends else before)
        if passed is not None:
            found.append(passed)
            continue
        earlier = {id(node) for one in found for each in one.statements for node in ast.walk(each)}
        whole = _forward_of(context, site, before)
        if whole is None or not {id(call) for call in whole.calls} <= earlier:
            _no_forward(site)
    return tuple(found)


def _no_forward(site: BackwardSite) -> NoReturn:
    message = (
        f"The call of the model that gives `{ast.unparse(site.loss)[:60]}` was not found before `backward()`"
    )
    raise refusal(message, site.region.module, site.call)


def _forward_of(
    context: RewriteContext, site: BackwardSite, before: Sequence[ast.stmt]
) -> ForwardSite | None:
    """The forward pass of a backward pass among the statements before it; None if none of them calls a model."""
    region, module = site.region, site.region.module
    loss = dotted(site.loss)
    names = {loss} if loss else _read_names(site.statement)
    first: ast.stmt | None = None
    last: ast.stmt | None = None
    calls: list[ast.Call] = []
    for statement in reversed(before):
        bound = bound_names(statement)
        if not bound & names:
            continue
        last = last or statement
        if suite_of(module, last) is not suite_of(module, statement):
            break
        found = model_calls(context, region, statement)
        if found:
            first = statement
            calls = [*found, *calls]
        names |= _read_names(statement)
    if first is None or last is None:
        return None
    suite = suite_of(module, first)
    chosen = tuple(suite[suite.index(first) : suite.index(last) + 1])
    return ForwardSite(region, chosen, tuple(calls), loss, site)


def model_calls(context: RewriteContext, region: Region, *statements: ast.AST) -> list[ast.Call]:
    """The calls of a model in some statements, or of functions of the program that call one."""
    trained = _trained(context)
    return [
        node
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and _calls_model(context, region, node, trained, 0)
    ]


def _calls_model(
    context: RewriteContext, region: Region, call: ast.Call, trained: set[str], depth: int
) -> bool:
    if is_model(context, region, call.func, trained):
        return True
    if depth > 3:
        return False
    for found in function_called(context, region, call):
        inside = _region_of(region, call, found.module, found.node)
        for each in ast.walk(found.node):
            if isinstance(each, ast.Call) and _calls_model(context, inside, each, trained, depth + 1):
                return True
    return False


def _region_of(region: Region, call: ast.Call, module: Module, function: Function) -> Region:
    scope = own_scope(module.scopes, function)
    return Region(module, function, Frame(module, scope, function, call, region.frame))


def is_model(context: RewriteContext, region: Region, callee: ast.expr, trained: set[str]) -> bool:
    """True if the callee is the model: by the optimizer's parameters, by its class, or else by its name."""
    name = dotted(callee)
    if not name or set(words(name)) & _NOT_MODEL:
        return False
    if name.removesuffix(".forward").removesuffix(".module") in trained:
        return True
    if isinstance(callee, ast.Attribute) and dotted(callee.value) in trained:
        return callee.attr not in _NOT_FORWARD
    if name in ("self", "self.forward"):
        owner = next((each for each in region.module.around(callee) if isinstance(each, ast.ClassDef)), None)
        return owner is not None and any(last_name(base) in _MODULES for base in owner.bases)
    for found in _instances(context, callee, region.frame, 0):
        return any(last_name(base) in _MODULES for base in found.of.node.bases)
    own = last_name(callee)
    return bool(set(words(own)[-1:]) & _MODEL_WORDS) and own[:1].islower()


def _instances(context: RewriteContext, node: ast.expr, frame: Frame, depth: int) -> Iterator[Instance]:
    """The objects that an expression may be, also behind calls such as ``Net().to(device)``."""
    for found in context.resolver.meant(node, frame, ROUTE):
        if isinstance(found, Instance):
            yield found
        elif isinstance(found, Value) and depth < 3:
            made = found.node
            if (
                isinstance(made, ast.Call)
                and isinstance(made.func, ast.Attribute)
                and made.func.attr in _GIVES_ITSELF
            ):
                yield from _instances(context, made.func.value, found.frame, depth + 1)


def _trained(context: RewriteContext) -> set[str]:
    """The names of the objects whose parameters the optimizers take."""
    try:
        calls = optimizer_calls(context)
    except RewriteRefused:
        return set()
    return {
        dotted(child.func.value)
        for _, call in calls
        for child in ast.walk(call)
        if isinstance(child, ast.Call)
        and isinstance(child.func, ast.Attribute)
        and child.func.attr in ("parameters", "named_parameters")
    } - {""}


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement, or one inside it, binds, or whose elements it sets."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(dotted(node))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add(dotted(node.value))
    return found - {""}


def _read_names(statement: ast.stmt) -> set[str]:
    """The names that a statement reads; the empty name stands for an expression without a name."""
    return {
        dotted(node)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def inside_autocast(module: Module, node: ast.AST) -> ast.With | None:
    """The ``with torch.autocast(…)`` around a node. None without one."""
    for around in (node, *module.around(node)):
        if isinstance(around, ast.With) and any(
            "autocast" in last_name(item.context_expr.func)
            for item in around.items
            if isinstance(item.context_expr, ast.Call)
        ):
            return around
    return None
