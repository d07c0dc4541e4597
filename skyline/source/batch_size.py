"""Search for the place that sets a script's batch size, without running the script and without annotations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from skyline.errors import RewriteRefused
from skyline.source import command_line
from skyline.source.batch_uses import BatchUse, Certainty, batch_uses
from skyline.source.command_line import ArgumentInForce
from skyline.source.knob import Knob, KnobKind, KnobSearch
from skyline.source.origin import Frame, Holder, HolderKind, Route
from skyline.source.program import Module, Program, ReadSource
from skyline.source.resolver import Origin, Resolver
from skyline.source.scope import BindingKind
from skyline.source.setting_names import Setting, is_batch_name, is_evaluation
from skyline.source.shared_use import other_use
from skyline.source.text import SourceText, TextEdit, last_name, span_of, text_of

_CANDIDATE_LIMIT = 8
_POWER_OF_TWO = re.compile(r"(?P<base>2\s*\*\*\s*)\d+")
_TRIED = {
    Certainty.LOADER: "the batch_size of a DataLoader, BatchSampler or trainer",
    Certainty.KEYWORD: "a batch_size= keyword in a library's call",
    Certainty.SHAPE: "a name like batch_size in a tensor's shape, a range or a slice",
    Certainty.NAMED: "a name like batch_size anywhere",
    Certainty.DEFINED: "a constant, default, field, entry or option named like batch_size",
    Certainty.FIRST_DIMENSION: "a name that is the first dimension of a tensor made by torch",
}
# Tools that set parameters and fields by name from the command line, without a declaration in the source.
_NAME_MAPPERS = {
    "fire", "tyro", "typer", "simple_parsing", "jsonargparse", "hydra", "HfArgumentParser", "TrlParser",
    "pyrallis", "omegaconf", "LightningCLI",
}  # fmt: skip


def find(script: SourceText, arguments: tuple[str, ...], read: ReadSource) -> KnobSearch:
    """The literals that may set the batch size, best first.

    ``arguments`` are the script's own arguments without its name. ``read`` returns the text of local modules, or
    None for a file that does not exist. Raises UsageError if the script is not Python.
    """
    program = Program(script, read)
    resolver = Resolver(program)
    knobs: dict[tuple[str, int, int], Knob] = {}
    reasons: dict[tuple[str, int, int], str] = {}
    tried: list[str] = []

    def take(origin: Origin) -> None:
        knob = _knob(program, resolver, origin, arguments)
        key = _place(knob) if knob is not None else ("", 0, 0)
        if knob is not None and key not in knobs:
            knobs[key] = knob
            reasons[key] = _refusal(program, origin)

    for origin in _configured(program, arguments):
        take(origin)
    uses = batch_uses(program)
    for evaluation in (False, True):
        for certainty in Certainty:
            mine = [
                use for use in uses if use.certainty is certainty and (use.evaluation is True) is evaluation
            ]
            if (evaluation or certainty is Certainty.FIRST_DIMENSION) and knobs:
                continue  # places without a name, and those that only evaluate, are a last resort
            if _TRIED[certainty] not in tried:
                tried.append(_TRIED[certainty])
            origins = [origin for use in mine for origin in _origins(resolver, use)]
            for origin in sorted(origins, key=lambda each: each.route.evaluation):
                take(origin)
    overriding = _overriding(program, uses, arguments)
    if overriding is not None and _place(overriding) not in knobs:
        # It goes over whatever the source or a file says.
        knobs = {_place(overriding): overriding, **knobs}
        reasons[_place(overriding)] = ""
    best = list(knobs)[:_CANDIDATE_LIMIT]
    refusals = tuple(reasons[key] for key in best)
    return KnobSearch(tuple(knobs[key] for key in best), tuple(tried), refusals[0] if best else "", refusals)


def with_value(knob: Knob, text: SourceText, value: int) -> TextEdit:
    """The edit that sets the knob to another value, in its current notation.

    Raises RewriteRefused if the command line sets the value, or if the file has changed.
    """
    if knob.kind is KnobKind.COMMAND_LINE:
        raise RewriteRefused(f"{knob.name} is set on the command line", file=text.path, line=knob.span.line)
    if value < 1:
        raise RewriteRefused(f"A batch size of {value} is not possible", file=text.path, line=knob.span.line)
    # An editor may use another path for the same file; the edit applies to the given text.
    edit = TextEdit(replace(knob.span, file=text.path), knob.text, _written_like(knob.text, value))
    text.apply((edit,))  # raises if the file changed
    return edit


def with_argument(knob: Knob, arguments: tuple[str, ...], value: int) -> tuple[str, ...]:
    """The command line with the effective entry changed; raises RewriteRefused for any other knob."""
    index = knob.argument_index
    if index is None or not 0 <= index < len(arguments):
        raise RewriteRefused(
            f"{knob.name} is not set on this command line", file=knob.span.file, line=knob.span.line
        )
    return command_line.with_value(arguments, index, value)


def _place(knob: Knob) -> tuple[str, int, int]:
    # All literals overridden by one command-line entry are one knob.
    if knob.argument_index is not None:
        return "", knob.argument_index, 0
    return knob.span.file, knob.span.line, knob.span.column


def _origins(resolver: Resolver, use: BatchUse) -> list[Origin]:
    frame = Frame(use.module, use.module.scope(_anchor(use)))
    route = Route(KnobKind.CALL_ARGUMENT, use.name, (use.label,))
    # A definition represents itself: its literal gets the name of the definition.
    if use.certainty is Certainty.DEFINED:
        route = _definition_route(use)
    origins = [
        origin
        for origin in resolver.literals(use.node, frame, route)
        if origin.literal is None or origin.literal > 0
    ]
    # A value that passes through an evaluation name (``test_batch_size``) is not the training batch size.
    return [
        replace(origin, route=origin.route.for_evaluation(is_evaluation(origin.route.name)))
        for origin in origins
    ]


def _anchor(use: BatchUse) -> ast.AST:
    # A synthetic node (an item of **kwargs) has no position; use the node that it was made from.
    node: ast.AST = use.node
    while node not in use.module.parents and isinstance(node, ast.Subscript):
        node = node.value
    return node


def _definition_route(use: BatchUse) -> Route:
    parent = use.module.parents.get(use.node)
    scope = use.module.scope(use.node)
    route = Route(KnobKind.CONSTANT, use.name)
    if isinstance(parent, ast.Dict):
        return route.through(KnobKind.DICT_ENTRY, Holder(HolderKind.ITEM, use.name, use.module))
    if isinstance(parent, ast.arguments):
        return replace(route, kind=KnobKind.PARAMETER_DEFAULT)
    if isinstance(parent, ast.keyword):
        call = use.module.parents[parent]
        kind = KnobKind.DICT_ENTRY if isinstance(call, ast.Call) and last_name(call.func) == "dict" else None
        return replace(route, kind=kind or KnobKind.CALL_ARGUMENT)
    if isinstance(scope.node, ast.ClassDef):
        field = isinstance(parent, ast.AnnAssign)
        kind = KnobKind.DATACLASS_FIELD if field else KnobKind.CONSTANT
        return route.through(kind, Holder(HolderKind.ATTRIBUTE, use.name, use.module))
    return route.through(KnobKind.CONSTANT, Holder(HolderKind.NAME, use.name, use.module, scope))


def _knob(program: Program, resolver: Resolver, origin: Origin, arguments: tuple[str, ...]) -> Knob | None:
    route, source = origin.route, origin.module.source
    span = span_of(source, origin.node)
    knob = Knob(route.name, origin.literal or 0, route.kind, span, source.at(span), route.trail)
    forced = _in_force(program, resolver, origin, arguments)
    if forced is not None:
        return replace(knob, value=forced.value, kind=KnobKind.COMMAND_LINE, argument_index=forced.index)
    return knob if origin.literal is not None else None


def _in_force(
    program: Program, resolver: Resolver, origin: Origin, arguments: tuple[str, ...]
) -> ArgumentInForce | None:
    route = origin.route
    if not arguments:
        return None
    if route.option is not None:
        return command_line.argument_in_force(program, resolver.options, route.option, arguments)
    holder = route.holders[-1] if route.holders else None
    if holder is None:
        return None
    constant = holder.scope is not None and holder.scope.parent is None
    if constant and has_configurator(program.script):
        return command_line.assignment_in_force((holder.name,), _dashed(arguments))
    if maps_names(program) and route.kind in (KnobKind.PARAMETER_DEFAULT, KnobKind.DATACLASS_FIELD):
        return command_line.assignment_in_force((holder.name,), arguments)
    return None


def _overriding(program: Program, uses: list[BatchUse], arguments: tuple[str, ...]) -> Knob | None:
    """An argument like ``train.batch_size=16`` that the source reads by name; its place is where it is used.

    The source may never name a library's option, such as one of ``TrainingArguments``; its place is the parser.
    """
    forced = command_line.override_in_force(Setting.BATCH_SIZE, arguments) if arguments else None
    if forced is None or not maps_names(program):
        return None
    training = [use for use in uses if use.evaluation is not True]
    name = command_line.name_at(arguments, forced.index)
    use = next((use for use in training if use.name == name), None) or next(
        _parsers(program, name), next(iter(training), None)
    )
    if use is None:
        return None
    span = span_of(use.module.source, use.node)
    return Knob(
        use.name,
        forced.value,
        KnobKind.COMMAND_LINE,
        span,
        use.module.source.at(span),
        (use.label,),
        forced.index,
    )


def _parsers(program: Program, name: str) -> Iterator[BatchUse]:
    for module, node in program.nodes_of(ast.Call):
        if last_name(node.func) in _NAME_MAPPERS:
            yield BatchUse(Certainty.NAMED, module, node, name, text_of(node), None)


def _dashed(arguments: tuple[str, ...]) -> tuple[str, ...]:
    # A configurator accepts ``--name=value`` only; other entries keep their position but cannot match.
    return tuple(argument if re.match(r"--\w+=", argument) else "" for argument in arguments)


def _configured(program: Program, arguments: tuple[str, ...]) -> list[Origin]:
    """Constants of the configuration file on the command line, which ``configurator.py`` runs last."""
    if not has_configurator(program.script):
        return []
    origins: list[Origin] = []
    for argument in arguments:
        path = Path(program.script.path).parent / argument
        module = program.open(path) if not argument.startswith("--") and argument.endswith(".py") else None
        for name, bindings in module.top.bindings.items() if module else ():
            if not is_batch_name(name) or is_evaluation(name) or name not in program.script.top.bindings:
                continue
            for binding in bindings:
                literal = binding.value.value if isinstance(binding.value, ast.Constant) else None
                if (
                    module
                    and binding.value
                    and isinstance(literal, int)
                    and binding.kind is BindingKind.ASSIGNED
                ):
                    holder = Holder(HolderKind.NAME, name, program.script, program.script.top)
                    route = Route(KnobKind.CONSTANT, name, (argument,)).through(KnobKind.CONSTANT, holder)
                    origins.append(Origin(module, binding.value, route, literal))
    return origins


def has_configurator(script: Module) -> bool:
    """True if the script runs nanoGPT's `configurator.py`, which sets its constants from the command line."""
    return any(
        isinstance(node, ast.Call)
        and last_name(node.func) == "exec"
        and any(
            isinstance(each, ast.Constant) and "configurator" in str(each.value) for each in ast.walk(node)
        )
        for node in script.nodes
    )


def maps_names(program: Program) -> bool:
    """True if the program imports a tool that sets parameters and fields by name from the command line."""
    for _, node in program.nodes_of(ast.Import, ast.ImportFrom):
        names = {alias.name.split(".")[0] for alias in node.names}
        package = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if (names | {package.split(".")[0]}) & _NAME_MAPPERS:
            return True
    return any(
        node.attr in _NAME_MAPPERS and node.attr[0].isupper() for _, node in program.nodes_of(ast.Attribute)
    )


def _refusal(program: Program, origin: Origin) -> str:
    if origin.route.computed:
        line = origin.node.lineno
        return f"The batch size is computed (`{origin.route.computed}`), and line {line} is only a part of it"
    return other_use(program, origin.route.holders)


def _written_like(text: str, value: int) -> str:
    power = _POWER_OF_TWO.fullmatch(text)
    if power is not None and value > 1 and value.bit_count() == 1:
        return f"{power['base']}{value.bit_length() - 1}"
    prefix = text[:2].lower()
    if prefix in ("0x", "0o", "0b"):
        digits = format(value, {"0x": "x", "0o": "o", "0b": "b"}[prefix])
        return text[:2] + (digits.upper() if text[2:].isupper() else digits)
    return f"{value:_}" if "_" in text else str(value)
