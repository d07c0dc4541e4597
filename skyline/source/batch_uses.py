"""The places where a program uses a batch size, most certain first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import IntEnum

from skyline.lazy_dataclass import dataclass
from skyline.source.arguments import passed, qualified_name
from skyline.source.program import Module, Program
from skyline.source.resolver import evaluation_of
from skyline.source.scope import default_of, parameters_of
from skyline.source.setting_names import batch_rank, is_batch_name, is_evaluation, is_training, words
from skyline.source.text import dotted, last_name, text_of

_TRAINER_KEYWORDS = {"per_device_train_batch_size", "train_batch_size", "train_micro_batch_size_per_gpu"}
_SAMPLERS = {"BatchSampler"}
_LOADERS = ("DataLoader", "NeighborLoader")
SHAPED = {"rand", "randn", "randint", "zeros", "ones", "empty", "full", "normal"}
"""Functions of torch and numpy whose arguments are the dimensions of a tensor."""


class Certainty(IntEnum):
    """Certainty that a place holds the training batch size."""

    LOADER = 0
    """The batch size of a DataLoader, batch sampler or trainer."""
    KEYWORD = 1
    """A keyword with a batch-size name in a library call."""
    SHAPE = 2
    """A batch-size name in a tensor's shape, a range or a slice."""
    NAMED = 3
    """A batch-size name anywhere else."""
    DEFINED = 4
    """A batch-size name that is defined but not used."""
    FIRST_DIMENSION = 5
    """Any name that is the first dimension of a synthetic tensor."""


@dataclass(frozen=True, slots=True)
class BatchUse:
    """An expression that gives a batch size; ``evaluation`` is None if its purpose is unknown."""

    certainty: Certainty
    module: Module
    node: ast.expr
    name: str
    label: str
    evaluation: bool | None


def is_loader(module: Module, callee: ast.expr) -> bool:
    """True if a call of this name makes a DataLoader or a loader with the same interface.

    ``from torch.utils.data import DataLoader as Loader`` gives it another name.
    """
    name = last_name(callee)
    if isinstance(callee, ast.Name) and not name.endswith(_LOADERS):
        name = qualified_name(module, callee).rpartition(".")[2]
    return name.endswith(_LOADERS) and name[:1].isupper()


def loader_calls(program: Program) -> Iterator[tuple[Module, ast.Call]]:
    """Every construction of a loader or batch sampler."""
    for module, node in program.nodes_of(ast.Call):
        if is_loader(module, node.func) or last_name(node.func) in _SAMPLERS:
            yield module, node


def batch_uses(program: Program) -> list[BatchUse]:
    """Every use of a batch size: most certain first, training before evaluation, then in textual order."""
    uses = [
        *_loaders(program),
        *_keywords(program),
        *_names(program),
        *_definitions(program),
        *_defaults(program),
        *_first_dimensions(program),
    ]
    order = {id(module): index for index, module in enumerate(program.modules)}
    # A synthetic node has the position of its origin; a more specific name sorts first.
    return sorted(
        uses,
        key=lambda use: (
            use.evaluation is True,
            use.certainty,
            use.evaluation is None,
            batch_rank(use.name) or 0,
            order[id(use.module)],
            use.node.lineno,
            use.node.col_offset,
        ),
    )


def purpose(module: Module, call: ast.Call) -> bool | None:
    """True for an evaluation loader; the name of its dataset decides if nothing around it does."""
    said = evaluation_of(module, call)
    given = passed(call, "dataset", 0).value
    if said is None and given is not None:
        dataset = text_of(given)
        if is_training(dataset):
            return False
        return True if is_evaluation(dataset) else None
    return said


def _loaders(program: Program) -> Iterator[BatchUse]:
    for module, call in loader_calls(program):
        given = passed(call, "batch_size", 1)
        label, role = text_of(call), purpose(module, call)
        if given.value is not None:
            yield BatchUse(Certainty.LOADER, module, given.value, "batch_size", label, role)
        for mapping in given.mappings:
            item = ast.copy_location(ast.Subscript(mapping, ast.Constant("batch_size"), ast.Load()), mapping)
            yield BatchUse(Certainty.LOADER, module, item, "batch_size", label, role)


def _keywords(program: Program) -> Iterator[BatchUse]:
    for module, node in program.nodes_of(ast.Call):
        if is_loader(module, node.func) or last_name(node.func) in _SAMPLERS:
            continue
        for keyword in node.keywords:
            if keyword.arg is None or is_evaluation(keyword.arg) or batch_rank(keyword.arg) not in (0, 1):
                continue
            sure = keyword.arg in _TRAINER_KEYWORDS
            library = not _is_defined_here(program, node)
            certainty = Certainty.LOADER if sure else Certainty.KEYWORD if library else Certainty.NAMED
            role = False if sure else evaluation_of(module, node)
            yield BatchUse(certainty, module, keyword.value, keyword.arg, text_of(node), role)


def _is_defined_here(program: Program, call: ast.Call) -> bool:
    """True if the program itself defines the callee: its parameter then leads to further uses."""
    return last_name(call.func) in program.defined


def _names(program: Program) -> Iterator[BatchUse]:
    for module, node in program.nodes_of(ast.Name, ast.Attribute, ast.Subscript):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                pass
            case ast.Subscript(slice=ast.Constant(value=str() as name), ctx=ast.Load()):
                pass
            case _:
                continue
        if not is_batch_name(name) or is_evaluation(name) or (name == "B" and not isinstance(node, ast.Name)):
            continue
        certainty = Certainty.SHAPE if _in_shape(module, node) else Certainty.NAMED
        yield BatchUse(certainty, module, node, name, text_of(node), evaluation_of(module, node))


def _in_shape(module: Module, node: ast.AST) -> bool:
    for around in module.around(node):
        if isinstance(around, ast.Slice):
            return True
        if isinstance(around, ast.Call):
            return last_name(around.func) in SHAPED | {"range", "batch", "split", "chunked", "islice"}
        if isinstance(around, ast.stmt):
            return False
    return False


def _definitions(program: Program) -> Iterator[BatchUse]:
    for module, node in program.nodes_of(ast.Assign, ast.AnnAssign, ast.Dict, ast.Call):
        pairs: list[tuple[str, ast.expr]] = []
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                pairs = [(name, value)]
            case ast.AnnAssign(
                target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.expr() as value
            ):
                pairs = [(name, value)]
            case ast.Dict():
                pairs = [
                    (key.value, value)
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
            case ast.Call():
                pairs = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
                if last_name(node.func) in {"add_argument", "option"}:
                    pairs = _declared_option(node)
            case _:
                continue
        for name, value in pairs:
            if batch_rank(name) in (0, 1, 2) and not is_evaluation(name):
                yield BatchUse(Certainty.DEFINED, module, value, name, name, evaluation_of(module, node))


def _defaults(program: Program) -> Iterator[BatchUse]:
    for module, node in program.nodes_of(ast.FunctionDef, ast.AsyncFunctionDef):
        for parameter in parameters_of(node):
            default = default_of(node, parameter)
            name = parameter.arg
            if default is not None and batch_rank(name) in (0, 1, 2) and not is_evaluation(name):
                yield BatchUse(Certainty.DEFINED, module, default, name, name, evaluation_of(module, default))


def _declared_option(call: ast.Call) -> list[tuple[str, ast.expr]]:
    default = passed(call, "default", None).value
    names = [str(each.value) for each in call.args if isinstance(each, ast.Constant)]
    if default is None:
        return []
    # Follow the option rather than its default, so that the command line can override it.
    return [
        (
            "_".join(words(name)),
            ast.copy_location(ast.Attribute(_PARSED, name.lstrip("-").replace("-", "_")), default),
        )
        for name in names
        if name.startswith("--")
    ]


# Result type of any argument parser: sufficient to look up its options.
_PARSED = ast.Call(ast.Attribute(ast.Name("<parser>", ast.Load()), "parse_args", ast.Load()), [], [])


def _first_dimensions(program: Program) -> Iterator[BatchUse]:
    for module, node in program.nodes_of(ast.Call):
        if last_name(node.func) not in SHAPED or not dotted(node.func):
            continue
        if not dotted(node.func).startswith("torch.") or _in_class(module, node):
            continue
        sizes = next((a.elts for a in node.args if isinstance(a, ast.Tuple | ast.List)), node.args)
        if len(sizes) >= 2 and isinstance(sizes[0], ast.Name | ast.Attribute):
            name = last_name(sizes[0])
            yield BatchUse(Certainty.FIRST_DIMENSION, module, sizes[0], name, text_of(node), None)


def _in_class(module: Module, node: ast.AST) -> bool:
    return any(isinstance(around, ast.ClassDef) for around in module.around(node))
