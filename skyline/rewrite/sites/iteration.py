"""The training loop, all code that runs in each iteration, and frameworks that own the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, TypeVar

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.argument import keyword_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.source.arguments import qualified_name
from skyline.source.knob import KnobKind
from skyline.source.origin import Frame, FunctionFound, Route
from skyline.source.program import Module
from skyline.source.scope import own_scope
from skyline.source.text import Function
from skyline.source.training_loop import Loop, loop_of

Kind = Literal["lightning", "fabric", "transformers", "accelerate"]
_PACKAGES: dict[str, Kind] = {
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "fabric",
    "transformers": "transformers",
    "trl": "transformers",
    "accelerate": "accelerate",
}
_TITLES: dict[Kind, str] = {
    "lightning": "PyTorch Lightning",
    "fabric": "Lightning Fabric",
    "transformers": "Hugging Face's Trainer",
    "accelerate": "Accelerate",
}
_SWITCHES: dict[Kind, tuple[str, ...]] = {
    "lightning": ("Trainer",),
    "fabric": ("Fabric",),
    "transformers": (
        "TrainingArguments",
        "Seq2SeqTrainingArguments",
        "SFTConfig",
        "DPOConfig",
        "RewardConfig",
    ),
    "accelerate": ("Accelerator",),
}
"""The classes whose arguments switch number formats, workers and the like."""
_DRIVERS: dict[Kind, tuple[str, ...]] = {
    "lightning": ("LightningCLI",),
    "fabric": (),
    "transformers": ("Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "RewardTrainer"),
    "accelerate": (),
}
"""The classes that train with switches from elsewhere: a command line, a file."""


@dataclass(frozen=True, slots=True, eq=False)
class Framework:
    """A framework in use.

    If ``takes_switches``, ``call`` constructs the object that has the switches (``Trainer(…)``,
    ``TrainingArguments(…)``). Else they come from elsewhere, such as a command line, and ``call`` only uses
    the framework.
    """

    kind: Kind
    module: Module
    call: ast.Call
    takes_switches: bool = True

    @property
    def title(self) -> str:
        """The name of the framework in messages."""
        return _TITLES[self.kind]

    @property
    def owns_loop(self) -> bool:
        """True if the framework runs the loop itself; Accelerate and Fabric leave it to the script."""
        return self.kind in ("lightning", "transformers")


def framework(context: RewriteContext) -> Framework | None:
    """The framework that trains in the program, if any. Calls that own the loop or take switches come first."""
    found: list[Framework] = []
    for module, call in context.program.nodes_of(ast.Call):
        name = qualified_name(module, call.func)
        package, last = name.partition(".")[0], name.rpartition(".")[2]
        kind = _PACKAGES.get(package)
        if kind == "lightning" and last == "Fabric":
            kind = "fabric"
        if kind is not None and last in (*_SWITCHES[kind], *_DRIVERS[kind]):
            found.append(Framework(kind, module, call, last in _SWITCHES[kind]))
    return min(found, key=lambda each: (not each.owns_loop, not each.takes_switches), default=None)


def framework_switch(context: RewriteContext, name: str) -> tuple[Framework, ast.keyword] | None:
    """The settings of ``transformers`` and their argument ``name=True``. None if it is not written like this."""
    owner = framework(context)
    if owner is None or owner.kind != "transformers" or not owner.takes_switches:
        return None
    given = keyword_of(owner.call, name)
    is_on = given is not None and isinstance(given.value, ast.Constant) and given.value.value is True
    return (owner, given) if given is not None and is_on else None


ROUTE = Route(KnobKind.CONSTANT, "")
_DEPTH_LIMIT = 6
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# Methods of tensors, modules and optimizers, whose names do not tell which class of the program is meant.
_COMMON = {
    "backward", "step", "zero_grad", "to", "cuda", "item", "forward", "train", "eval", "update", "log", "get",
}  # fmt: skip

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Code that runs in each iteration: the loop's body, or a function that is called from it.

    ``frame`` is its inside, with the call that led there, so that parameters can be followed to arguments.
    """

    module: Module
    node: Loop | Function
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """The loop over batches; its body is the first region, functions follow in the order of their calls."""

    module: Module
    loop: Loop
    regions: tuple[Region, ...]

    def nodes(self, *kinds: type[Node]) -> Iterator[tuple[Region, Node]]:
        """Every node of these types, each once, region by region in the order of the text."""
        seen: set[int] = set()
        for region in self.regions:
            found = [
                child
                for statement in region.node.body
                for child in ast.walk(statement)
                if isinstance(child, kinds)
            ]
            for node in sorted(
                found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
            ):
                if id(node) not in seen:
                    seen.add(id(node))
                    yield region, node


def iteration(context: RewriteContext) -> Iteration:
    """The training loop; raises RewriteRefused if none is found, or if a framework contains it."""
    return context.once("iteration", lambda: _iteration(context))


def _iteration(context: RewriteContext) -> Iteration:
    owner = framework(context)
    if owner is not None and owner.owns_loop:
        raise refusal(f"The training loop is inside {owner.title}", owner.module, owner.call)
    found = _told(context) or _searched(context)
    if found is None:
        raise RewriteRefused("No loop that trains was found in the source", file=context.profile.script)
    module, loop = found
    frame = Frame(module, module.scope(loop.body[0]))
    regions = [Region(module, loop, frame)]
    _called(context, regions[0], regions, 0)
    return Iteration(module, loop, tuple(regions))


def _told(context: RewriteContext) -> tuple[Module, Loop] | None:
    place = context.profile.loop_line
    if place is None:
        return None
    try:
        module, line = context.place(place)
    except RewriteRefused:
        return None
    loops = [node for node in module.nodes if isinstance(node, _LOOPS)]
    starting = [loop for loop in loops if loop.lineno == line]
    around = [loop for loop in loops if loop.lineno <= line <= (loop.body[0].lineno)]
    chosen = starting or around
    return (module, chosen[-1]) if chosen else None


def _searched(context: RewriteContext) -> tuple[Module, Loop] | None:
    for fact in context.profile.optimizers:
        if fact.step_line is not None:
            try:
                module, line = context.place(fact.step_line)
            except RewriteRefused:
                continue
            if loop := loop_of(module, line):
                return module, loop
    for module in context.program.modules:
        if loop := loop_of(module):
            return module, loop
    return None


def _called(context: RewriteContext, region: Region, regions: list[Region], depth: int) -> None:
    """Adds the functions that a region calls, and the functions that they call."""
    if depth > _DEPTH_LIMIT:
        return
    for statement in region.node.body:
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call):
                continue
            for found in function_called(context, region, call):
                if any(each.node is found.node for each in regions):
                    continue
                scope = own_scope(found.module.scopes, found.node)
                frame = Frame(found.module, scope, found.node, call, region.frame)
                made = Region(found.module, found.node, frame)
                regions.append(made)
                _called(context, made, regions, depth + 1)


def function_called(context: RewriteContext, region: Region, call: ast.Call) -> list[FunctionFound]:
    """The functions and methods of the program that a call in a region may mean."""
    known = [
        found
        for found in context.resolver.meant(call.func, region.frame, ROUTE)
        if isinstance(found, FunctionFound)
    ]
    if known or not isinstance(call.func, ast.Attribute) or call.func.attr in _COMMON:
        return known
    # An unknown object: its method is meant if only one class of the program has it.
    methods = [
        (module, node)
        for module, node in context.program.nodes_of(ast.FunctionDef, ast.AsyncFunctionDef)
        if node.name == call.func.attr and isinstance(module.parents.get(node), ast.ClassDef)
    ]
    return [FunctionFound(methods[0][1], methods[0][0], ROUTE)] if len(methods) == 1 else []
