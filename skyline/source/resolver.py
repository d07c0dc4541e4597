"""Search from an expression back to the literals that it may come from, without running any code."""

from __future__ import annotations

import ast
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from skyline.lazy_dataclass import dataclass
from skyline.source.arguments import call_sites, is_method, passed, position_of
from skyline.source.command_line import Option, options_of
from skyline.source.knob import KnobKind
from skyline.source.members import attribute, by_name, item, method_frame
from skyline.source.number_place import number_of
from skyline.source.origin import (
    ClassFound,
    Found,
    Frame,
    FunctionFound,
    Holder,
    HolderKind,
    Instance,
    ModuleFound,
    Route,
    Value,
)
from skyline.source.program import Module, Program
from skyline.source.scope import Binding, BindingKind, NameScope, default_of, own_scope
from skyline.source.setting_names import is_batch_name, is_evaluation, is_training
from skyline.source.text import Function, last_name, literal_key, text_of

# A program with circular references must still get an answer in interactive time.
_STEP_LIMIT = 500
_SEARCH_LIMIT = 2_000
"""Limits of search steps for one use of a batch size, and for a whole program. Usual scripts take less than a
hundred, but a search for untyped objects of a library could take minutes."""

_DEPTH_LIMIT = 40
_TRANSPARENT = {"int", "copy", "deepcopy", "cast", "eval"}


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """An integer literal that a value may come from; ``literal`` is None if only the command line has one."""

    module: Module
    node: ast.expr
    route: Route
    literal: int | None


class Resolver:
    """Follows names, attributes, items, parameters and calls through one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._steps = 0
        self._all_steps = 0
        self._active: list[tuple[int, int]] = []
        self._lookups: set[tuple[int, str]] = set()

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """The options of the program's command line."""
        return options_of(self.program)

    def literals(self, node: ast.expr, frame: Frame, route: Route) -> list[Origin]:
        """The integer literals behind an expression, likeliest first; literals behind arithmetic are marked.

        Arithmetic of literals alone, such as ``2**9``, counts as one literal.
        """
        self._all_steps += self._steps
        self._steps = 0
        return self._literals(node, frame, route)

    def meant(self, node: ast.expr, frame: Frame, route: Route) -> list[Found]:
        """Like ``follow``, but with the full number of search steps, for the few places that a rewrite looks up."""
        self._steps = self._all_steps = 0
        return self.follow(node, frame, route)

    def _literals(self, node: ast.expr, frame: Frame, route: Route) -> list[Origin]:
        origins: list[Origin] = []
        for found in self.follow(node, frame, route):
            if not isinstance(found, Value):
                continue
            match found.node:
                case ast.Constant(value=bool()):
                    continue
                case ast.Constant(value=int() as literal):
                    origins.append(Origin(found.frame.module, found.node, found.route, literal))
                case ast.Constant() if found.route.option is not None:
                    origins.append(Origin(found.frame.module, found.node, found.route, None))
                case ast.BinOp() if (number := _whole_number(found.node)) is not None:
                    origins.append(Origin(found.frame.module, found.node, found.route, number))
                case ast.BinOp():
                    computed = found.route.computed_by(text_of(found.node))
                    parts = [self._literals(part, found.frame, computed) for part in _operands(found.node)]
                    origins += [origin for part in parts for origin in part]
                case _:
                    continue
        return origins

    def follow(self, node: ast.expr, frame: Frame, route: Route) -> list[Found]:
        """All possible origins of an expression, likeliest first; empty if unknown."""
        key = (id(node), id(frame.call))
        self._steps += 1
        spent = self._steps > _STEP_LIMIT or self._all_steps + self._steps > _SEARCH_LIMIT
        if spent or key in self._active or len(self._active) > _DEPTH_LIMIT:
            return []
        self._active.append(key)
        try:
            return self._follow(node, frame, route)
        finally:
            self._active.pop()

    @contextmanager
    def looking_up(self, found: Found, name: str) -> Generator[bool, None, None]:
        """Guard the search for one member; yields False if that search is already running."""
        key = (id(_identity(found)), name)
        if key in self._lookups:
            yield False
            return
        self._lookups.add(key)
        try:
            yield True
        finally:
            self._lookups.discard(key)

    def _follow(self, node: ast.expr, frame: Frame, route: Route) -> list[Found]:
        match node:
            case ast.Name():
                return self._name(node, frame, route)
            case ast.Attribute():
                objects = self.follow(node.value, frame, route)
                found = [each for owner in objects for each in attribute(self, owner, node.attr, route, node)]
                return found or self._unknown_member(node.attr, objects, route)
            case ast.Subscript():
                return self._subscript(node, frame, route)
            case ast.Call():
                return self._call(node, frame, route)
            case ast.NamedExpr() | ast.Await():
                return self.follow(node.value, frame, route)
            case ast.IfExp():
                return self.follow(node.body, frame, route) + self.follow(node.orelse, frame, route)
            case ast.BoolOp():
                return [found for value in node.values for found in self.follow(value, frame, route)]
            case _:
                return [Value(node, frame, route)]

    def _unknown_member(self, name: str, objects: list[Found], route: Route) -> list[Found]:
        # An object of the program without the member rules it out; an unknown object does not.
        known = any(isinstance(found, ModuleFound | ClassFound) for found in objects)
        return [] if known or not is_batch_name(name) else by_name(self, name, route)

    def _name(self, node: ast.Name, frame: Frame, route: Route) -> list[Found]:
        found = frame.scope.lookup(node.id)
        if found is None:
            for statement in frame.scope.module.star_imports:
                source = self.program.find_module(frame.module, statement.module or "", statement.level)
                if source and node.id in source.top.bindings:
                    return self.bound(source.top, node.id, Frame(source, source.top), route, None)
            return []
        scope, _ = found
        before = node if scope is frame.scope else None
        return self.bound(scope, node.id, replace(frame, scope=scope), route, before)

    def bound(
        self, scope: NameScope, name: str, frame: Frame, route: Route, before: ast.expr | None
    ) -> list[Found]:
        """All possible origins of a name bound in exactly this scope, at the place ``before``."""
        found: list[Found] = []
        computed = ""
        for binding in _effective(scope.bindings.get(name, []), before):
            marked = route.computed_by(computed) if computed else route
            if binding.kind is BindingKind.REASSIGNED:
                computed = computed or ("" if binding.conditional else text_of(binding.node))
                continue
            found += self._binding(binding, scope, frame, marked)
        return found

    def _binding(self, binding: Binding, scope: NameScope, frame: Frame, route: Route) -> list[Found]:
        holder = Holder(HolderKind.NAME, binding.name, frame.module, scope)
        match binding.kind, binding.node, binding.value:
            case BindingKind.PARAMETER, ast.arg(), _:
                return self._parameter(binding, binding.node, frame, route)
            case BindingKind.IMPORTED, ast.Import() | ast.ImportFrom(), _:
                return self._import(binding.node, binding.name, frame, route)
            case BindingKind.DEFINED, ast.ClassDef(), _:
                return [ClassFound(binding.node, frame.module, route)]
            case BindingKind.DEFINED, ast.FunctionDef() | ast.AsyncFunctionDef(), _:
                return [FunctionFound(binding.node, frame.module, route)]
            case BindingKind.ASSIGNED, _, ast.expr() as value:
                held = route.through(KnobKind.CONSTANT, holder)
                return self._unpacked(value, binding.unpack, frame, held)
            case BindingKind.LOOP, _, (ast.List() | ast.Tuple()) as values:
                held = route.through(KnobKind.CONSTANT, holder)
                held = held.computed_by(f"for {binding.name} in {text_of(values)}")
                return [found for value in values.elts for found in self.follow(value, frame, held)]
            case _:
                return []

    def _unpacked(self, value: ast.expr, unpack: tuple[int, ...], frame: Frame, route: Route) -> list[Found]:
        if not unpack:
            return self.follow(value, frame, route)
        found: list[Found] = []
        for source in self.follow(value, frame, route):
            if not isinstance(source, Value):
                continue
            if isinstance(source.node, ast.Tuple | ast.List) and unpack[0] < len(source.node.elts):
                found += self._unpacked(source.node.elts[unpack[0]], unpack[1:], source.frame, source.route)
            elif isinstance(source.node, ast.Call) and last_name(source.node.func) == "parse_known_args":
                found += [source] if unpack[0] == 0 else []
        return found

    def _parameter(self, binding: Binding, parameter: ast.arg, frame: Frame, route: Route) -> list[Found]:
        function = frame.module.scope(parameter).node
        holder = Holder(HolderKind.NAME, binding.name, frame.module, frame.scope)
        if not isinstance(function, Function):
            return []
        method = is_method(frame.module, function)
        if method and parameter is (function.args.posonlyargs + function.args.args)[0]:
            return self._self(function, frame, route)
        position = position_of(function, parameter.arg, bound=method)
        default = default_of(function, parameter)
        outside = Frame(frame.module, frame.module.scope(function))
        held = route.through(KnobKind.PARAMETER_DEFAULT, holder)
        fallback = self.follow(default, outside, held) if default is not None else []
        fallback = self._decorated(function, parameter.arg, route) or fallback
        if frame.function is function and frame.call is not None and frame.caller is not None:
            given = self._argument(frame.call, frame.caller, parameter.arg, position, route, holder)
            return fallback if given is None else given
        found: list[Found] = []
        sites = call_sites(self.program, frame.module, function)
        omitted = not sites
        for site in sites:
            caller = Frame(site.module, site.scope)
            purpose = _serves_evaluation(site.module, site.call)
            given = self._argument(
                site.call, caller, parameter.arg, position, route.for_evaluation(purpose), holder
            )
            omitted = omitted or given is None
            found += given or []
        return found + (fallback if omitted else [])

    def _argument(
        self, call: ast.Call, caller: Frame, name: str, position: int | None, route: Route, holder: Holder
    ) -> list[Found] | None:
        """The argument of a call; None if the parameter keeps its default."""
        held = route.through(KnobKind.CALL_ARGUMENT, holder)
        given = passed(call, name, position)
        if given.value is not None:
            return self.follow(given.value, caller, held)
        for mapping in given.mappings:
            for source in self.follow(mapping, caller, route):
                if found := item(self, source, name, held):
                    return found
        return None

    def _decorated(self, function: Function, name: str, route: Route) -> list[Found]:
        """The default of a click option, which its function receives as a parameter."""
        options = [option for option in self.options if option.destination == name]
        if not any(option.call in function.decorator_list for option in options):
            return []
        return by_name(self, name, route)

    def _self(self, function: Function, frame: Frame, route: Route) -> list[Found]:
        owner = frame.module.parents.get(function)
        if frame.instance is not None:
            return [replace(frame.instance, route=route)]
        if not isinstance(owner, ast.ClassDef):
            return []
        found = ClassFound(owner, frame.module, route)
        if any(last_name(decorator) == "classmethod" for decorator in function.decorator_list):
            return [found]
        calls = [
            Instance(found, route, call, Frame(module, module.scope(call)))
            for module, call in self.program.calls_of(owner.name)
        ]
        return list[Found](calls) or [Instance(found, route)]

    def _import(
        self, node: ast.Import | ast.ImportFrom, name: str, frame: Frame, route: Route
    ) -> list[Found]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                if (alias.asname or alias.name.split(".")[0]) != name:
                    continue
                target = alias.name if alias.asname else alias.name.split(".")[0]
                module = self.program.find_module(frame.module, target)
                return [ModuleFound(module, route)] if module else []
            if (alias.asname or alias.name) != name:
                continue
            package = node.module or ""
            module = self.program.find_module(frame.module, package, node.level)
            if module and alias.name in module.top.bindings:
                return self.bound(module.top, alias.name, Frame(module, module.top), route, None)
            inner = self.program.find_module(frame.module, f"{package}.{alias.name}".lstrip("."), node.level)
            return [ModuleFound(inner, route)] if inner else []
        return []

    def _subscript(self, node: ast.Subscript, frame: Frame, route: Route) -> list[Found]:
        key = literal_key(node)
        objects = self.follow(node.value, frame, route)
        if key is not None:
            found = [each for owner in objects for each in item(self, owner, key, route, node)]
            return found or self._unknown_member(key, objects, route)
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(index, int) and index >= 0:
            return self._unpacked(node.value, (index,), frame, route)
        return []

    def _call(self, node: ast.Call, frame: Frame, route: Route) -> list[Found]:
        name = last_name(node.func)
        if isinstance(node.func, ast.Name) and frame.scope.lookup(name) is None:
            if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
                made = ast.Attribute(node.args[0], str(node.args[1].value), ast.Load())
                return self._or_default(ast.copy_location(made, node), node.args[2:3], frame, route)
            if name in {"max", "min"}:
                # ``max(1, batch_size)`` guards a value; the guard itself is not an origin.
                inner = [argument for argument in node.args if not isinstance(argument, ast.Constant)]
                return [found for argument in inner for found in self.follow(argument, frame, route)]
        if name in _TRANSPARENT and node.args:
            return self.follow(node.args[-1], frame, route)
        if name == "get" and isinstance(node.func, ast.Attribute) and node.args:
            made = ast.Subscript(node.func.value, node.args[0], ast.Load())
            return self._or_default(ast.copy_location(made, node), node.args[1:2], frame, route)
        for callee in self.follow(node.func, frame, route):
            match callee:
                case ClassFound():
                    return [Instance(callee, route, node, frame)]
                case FunctionFound():
                    owner = self._owner(node, frame, route)
                    return self.called(replace(callee, route=route), node, frame, owner)
                case _:
                    continue
        return [Value(node, frame, route)]

    def _or_default(self, node: ast.expr, default: list[ast.expr], frame: Frame, route: Route) -> list[Found]:
        return self.follow(node, frame, route) + [
            found for value in default for found in self.follow(value, frame, route)
        ]

    def _owner(self, node: ast.Call, frame: Frame, route: Route) -> Instance | None:
        if not isinstance(node.func, ast.Attribute):
            return None
        owners = self.follow(node.func.value, frame, route)
        return next((owner for owner in owners if isinstance(owner, Instance)), None)

    def called(
        self, function: FunctionFound, call: ast.Call | None, frame: Frame, owner: Instance | None
    ) -> list[Found]:
        """All values that a function may return."""
        inside = own_scope(function.module.scopes, function.node)
        if owner is not None and call is None:
            within = method_frame(owner, function.node)
        else:
            within = Frame(function.module, inside, function.node, call, frame if call else None, owner)
        found: list[Found] = []
        for value in function.module.returns.get(function.node, ()):
            found += self.follow(value, within, function.route)
        return found


def _identity(found: Found) -> object:
    match found:
        case Value():
            return found.node
        case Instance():
            return found.call or found.of.node
        case ModuleFound():
            return found.module
        case ClassFound() | FunctionFound():
            return found.node


def _whole_number(node: ast.BinOp) -> int | None:
    """The number that arithmetic of literals on one line gives, such as ``2**9``; None for anything else."""
    number = number_of(node)
    return number if isinstance(number, int) and node.lineno == node.end_lineno else None


def _operands(node: ast.BinOp) -> list[ast.expr]:
    """Both operands, or the one that names a batch if only one does."""
    sides = [node.left, node.right]
    named = [side for side in sides if _names_batch(side)]
    return named if len(named) == 1 else sides


def _names_batch(node: ast.expr) -> bool:
    for child in ast.walk(node):
        name = (
            child.id
            if isinstance(child, ast.Name)
            else child.attr
            if isinstance(child, ast.Attribute)
            else ""
        )
        if name and is_batch_name(name):
            return True
        if isinstance(child, ast.Subscript) and is_batch_name(literal_key(child) or ""):
            return True
    return False


def _effective(bindings: list[Binding], before: ast.expr | None) -> list[Binding]:
    """The bindings that may apply at a place: the last certain one first, then the uncertain ones after it."""
    if before is not None:
        here = (before.lineno, before.col_offset)
        earlier = [each for each in bindings if _end(each.node) <= here]
        bindings = earlier or bindings
    doubtful: list[Binding] = []
    changes: list[Binding] = []
    for binding in reversed(bindings):
        if binding.kind is BindingKind.REASSIGNED:
            changes.append(binding)
        elif binding.conditional:
            doubtful.insert(0, binding)
        else:
            return [*changes, binding, *doubtful]
    return [*changes, *doubtful]


def _end(node: ast.AST) -> tuple[int, int]:
    if isinstance(node, ast.For | ast.AsyncFor | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.lineno, node.col_offset
    return (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)


def _serves_evaluation(module: Module, call: ast.Call) -> bool:
    return evaluation_of(module, call) is True


def evaluation_of(module: Module, node: ast.AST) -> bool | None:
    """True for a call that serves evaluation, False for training, by the nearest names; None if unknown."""
    for around in module.around(node):
        names: list[str] = []
        match around:
            case ast.Assign():
                names = [text_of(target) for target in around.targets]
            case ast.AnnAssign():
                names = [text_of(around.target)]
            case ast.keyword(arg=str() as argument):
                names = [argument]
            case ast.Dict():
                names = _key_of_value(module, around, node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [around.name]
            case _:
                continue
        if any(is_training(name) for name in names):
            return False
        if any(is_evaluation(name) for name in names):
            return True
    return None


def _key_of_value(module: Module, node: ast.Dict, inner: ast.AST) -> list[str]:
    way = {inner, *module.around(inner)}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and value in way:
            return [str(key.value)]
    return []
