"""The possible values of ``object.name`` and ``object["name"]``."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from skyline.lazy_dataclass import dataclass
from skyline.source.arguments import passed, position_of
from skyline.source.command_line import later_default
from skyline.source.knob import KnobKind
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
    same,
)
from skyline.source.program import Store
from skyline.source.scope import BindingKind, is_main_guard, own_scope
from skyline.source.text import Function, dotted, last_name, literal_key, text_of

if TYPE_CHECKING:
    from skyline.source.resolver import Resolver

_PARSERS = {"parse_args", "parse_known_args", "parse_intermixed_args"}
_VIEWS = {"vars", "asdict", "astuple", "to_dict", "dict"}
_Form = type[ast.Attribute] | type[ast.Subscript]
"""The way that a member is named: ``.name`` or ``["name"]``."""


def attribute(
    follower: Resolver, found: Found, name: str, route: Route, use: ast.expr | None = None
) -> list[Found]:
    """All possible values of ``found.name``; ``use`` is the place of the access."""
    return _member(follower, found, name, route, use, ast.Attribute)


def item(
    follower: Resolver, found: Found, key: str, route: Route, use: ast.expr | None = None
) -> list[Found]:
    """All possible values of ``found["key"]``."""
    return _member(follower, found, key, route, use, ast.Subscript)


def _member(
    follower: Resolver, found: Found, name: str, route: Route, use: ast.expr | None, form: _Form
) -> list[Found]:
    with follower.looking_up(found, name) as first:
        if not first:
            return []
        stored = _stored(follower, found, name, route, use, form)
        if stored.final:
            return stored.values
        marked = _marked(route, stored)
        updated: list[Found] = []
        if form is ast.Subscript and isinstance(found, Value):
            for call, frame in updates(follower, found, route):
                updated += _given(follower, call, frame, name, marked)
        return stored.values + updated + _declared(follower, found, name, marked) + stored.maybe


def by_name(follower: Resolver, name: str, route: Route) -> list[Found]:
    """All members of this name in the program that an object of unknown type may have."""
    found = _option(follower, name, route)
    for module, node in follower.program.members_of(name):
        frame = Frame(module, module.scope(node))
        match node:
            case ast.ClassDef():
                owner = ClassFound(node, module, route)
                found += _class_attribute(follower, owner, name, route)
            case ast.Assign(targets=[ast.Attribute(attr=attr)]) if attr == name:
                held = route.through(KnobKind.CONSTANT, Holder(HolderKind.ATTRIBUTE, name, module))
                found += follower.follow(node.value, frame, held)
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name:
                        held = route.through(KnobKind.DICT_ENTRY, Holder(HolderKind.ITEM, name, module))
                        found += follower.follow(value, frame, held)
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True)
class _Stores:
    values: list[Found]
    """Values of stores that are executed unconditionally."""
    maybe: list[Found]
    computed: str
    """The arithmetic of a store that modifies the previous value."""
    final: bool


def _stored(
    follower: Resolver, found: Found, name: str, route: Route, use: ast.expr | None, form: _Form
) -> _Stores:
    result = _Stores([], [], "", False)
    for store in reversed(follower.program.stores_of(name)):
        if not isinstance(store.target, form):
            continue
        if isinstance(found, Instance) and dotted(store.owner) == "self":
            continue  # methods of the class itself are read with its declarations
        if use is not None and store.statement in (use, *store.module.around(use)):
            continue
        frame = Frame(store.module, store.module.scope(store.target))
        if not any(same(found, other) for other in follower.follow(store.owner, frame, route)):
            continue
        conditional = _conditional(store)
        changes = isinstance(store.statement, ast.AugAssign) or _mentions(store.value, name)
        if changes:
            if not conditional:
                result = replace(result, computed=result.computed or text_of(store.statement))
            continue
        kind = HolderKind.ATTRIBUTE if form is ast.Attribute else HolderKind.ITEM
        place = KnobKind.CONSTANT if form is ast.Attribute else KnobKind.DICT_ENTRY
        held = _marked(route.through(place, Holder(kind, name, store.module)), result)
        values = follower.follow(store.value, frame, held)
        if conditional:
            result.maybe.extend(values)
        else:
            result.values.extend(values)
            # The last unconditional store hides the earlier ones.
            return replace(result, values=result.values + result.maybe, final=True)
    return result


def _marked(route: Route, stored: _Stores) -> Route:
    return route.computed_by(stored.computed) if stored.computed else route


def _conditional(store: Store) -> bool:
    for around in store.module.around(store.statement):
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            return False
        if isinstance(around, ast.For | ast.While | ast.ExceptHandler):
            return True
        if isinstance(around, ast.If) and not is_main_guard(around):
            return True
    return False


def _mentions(node: ast.expr, name: str) -> bool:
    return any(
        (isinstance(child, ast.Attribute) and child.attr == name)
        or (isinstance(child, ast.Subscript) and literal_key(child) == name)
        for child in ast.walk(node)
    )


def _declared(follower: Resolver, found: Found, name: str, route: Route) -> list[Found]:
    match found:
        case ModuleFound():
            frame = Frame(found.module, found.module.top)
            return follower.bound(found.module.top, name, frame, route, None)
        case ClassFound():
            return _class_attribute(follower, found, name, route)
        case Instance():
            return _instance_attribute(follower, found, name, route)
        case Value(node=ast.Call()) | Value(node=ast.Dict()):
            return _entries(follower, found, name, route)
        case _:
            return []


def _entries(follower: Resolver, found: Value, key: str, route: Route) -> list[Found]:
    """Entries of a dict display, of ``dict(…)``, of a parsed command line, or of an unknown call with that argument."""
    node, frame = found.node, found.frame
    entry = route.through(KnobKind.DICT_ENTRY, Holder(HolderKind.ITEM, key, frame.module))
    if isinstance(node, ast.Dict):
        for name, value in reversed(list(zip(node.keys, node.values, strict=True))):
            if isinstance(name, ast.Constant) and name.value == key:
                return follower.follow(value, frame, entry)
            if name is None and (inner := _items_of(follower, value, frame, key, route)):
                return inner
        return []
    if not isinstance(node, ast.Call):
        return []
    callee = last_name(node.func)
    if callee in _PARSERS:
        return _option(follower, key, route)
    return _given(follower, node, frame, key, route)


def updates(follower: Resolver, found: Value, route: Route) -> list[tuple[ast.Call, Frame]]:
    """Every ``mapping.update(…)`` of this mapping, the last one first."""
    calls: list[tuple[ast.Call, Frame]] = []
    for module, call in reversed(follower.program.calls_of("update")):
        frame = Frame(module, module.scope(call))
        if not isinstance(call.func, ast.Attribute) or not (call.args or call.keywords):
            continue
        if any(same(found, owner) for owner in follower.follow(call.func.value, frame, route)):
            calls.append((call, frame))
    return calls


def _given(follower: Resolver, node: ast.Call, frame: Frame, key: str, route: Route) -> list[Found]:
    """The arguments for one key of a call that takes entries as keywords or mappings."""
    callee = last_name(node.func)
    given = passed(node, key, None)
    if given.value is not None:
        kind = KnobKind.DICT_ENTRY if callee == "dict" else KnobKind.CALL_ARGUMENT
        holder = HolderKind.ITEM if callee == "dict" else HolderKind.ATTRIBUTE
        return follower.follow(given.value, frame, route.through(kind, Holder(holder, key, frame.module)))
    sources = [*given.mappings, *node.args]
    if callee in _VIEWS and isinstance(node.func, ast.Attribute):
        sources.append(node.func.value)
    for source in sources:
        if inner := _items_of(follower, source, frame, key, route):
            return inner
    return []


def _items_of(follower: Resolver, node: ast.expr, frame: Frame, key: str, route: Route) -> list[Found]:
    if isinstance(node, ast.Starred | ast.Constant):
        return []
    found: list[Found] = []
    for source in follower.follow(node, frame, route):
        found += item(follower, source, key, route)
    return found


def _option(follower: Resolver, name: str, route: Route) -> list[Found]:
    found: list[Found] = []
    for option in follower.options:
        if option.destination != name:
            continue
        held = route.through(
            KnobKind.ARGPARSE_DEFAULT, Holder(HolderKind.ATTRIBUTE, name, option.module), option.name
        )
        held = replace(held, option=option)
        module, default = later_default(follower.program, name) or (option.module, option.default)
        frame = Frame(module, module.scope(default or option.call))
        # Without a default only the command line can set it; the option's own name then represents the place.
        values = follower.follow(default, frame, held) if default is not None else []
        found += values or [Value(option.call.args[0], frame, held)]
    return found


def _class_attribute(follower: Resolver, owner: ClassFound, name: str, route: Route) -> list[Found]:
    scope = own_scope(owner.module.scopes, owner.node)
    frame = Frame(owner.module, scope)
    for binding in reversed(scope.bindings.get(name, [])):
        if binding.kind is BindingKind.ASSIGNED and binding.value is not None:
            field = isinstance(binding.node, ast.AnnAssign) or _is_dataclass(owner.node)
            kind = KnobKind.DATACLASS_FIELD if field else KnobKind.CONSTANT
            held = route.through(kind, Holder(HolderKind.ATTRIBUTE, name, owner.module))
            return follower.follow(field_default(binding.value), frame, held)
        if isinstance(binding.node, Function):
            function = FunctionFound(binding.node, owner.module, route)
            makers = {last_name(decorator) for decorator in binding.node.decorator_list}
            if makers & {"property", "cached_property"}:
                return follower.called(function, None, frame, Instance(owner, route))
            return [function]
    for base in _bases(follower, owner, route):
        if inherited := _class_attribute(follower, base, name, route):
            return inherited
    return []


def _instance_attribute(follower: Resolver, found: Instance, name: str, route: Route) -> list[Found]:
    owner, module = found.of, found.of.module
    takes_fields = _is_dataclass(owner.node) or not _method(owner.node, "__init__")
    if takes_fields and found.call is not None and found.frame is not None:
        given = passed(found.call, name, _field_position(owner.node, name))
        if given.value is not None:
            held = route.through(KnobKind.CALL_ARGUMENT, Holder(HolderKind.ATTRIBUTE, name, module))
            return follower.follow(given.value, found.frame, held)
        for mapping in given.mappings:
            if inner := _items_of(follower, mapping, found.frame, name, route):
                return inner
    values: list[Found] = []
    for method in owner.node.body:
        if isinstance(method, Function):
            values += _assigned_to_self(follower, found, method, name, route)
    values = values or _class_attribute(follower, owner, name, route)
    for base in [] if values else _bases(follower, owner, route):
        values += _instance_attribute(follower, replace(found, of=base), name, route)
    if not values and found.call is not None and found.frame is not None:
        # ``def __init__(self, **kwargs): self.__dict__.update(kwargs)`` and its many spellings.
        given = passed(found.call, name, None).value
        if given is not None:
            held = route.through(KnobKind.CALL_ARGUMENT, Holder(HolderKind.ATTRIBUTE, name, module))
            return follower.follow(given, found.frame, held)
    return values


def _assigned_to_self(
    follower: Resolver, found: Instance, method: Function, name: str, route: Route
) -> list[Found]:
    values: list[Found] = []
    module = found.of.module
    for value in module.own_attributes.get(method, {}).get(name, ()):
        if _mentions(value, name) and dotted(value) != name:
            continue
        held = route.through(KnobKind.CONSTANT, Holder(HolderKind.ATTRIBUTE, name, module), f"self.{name}")
        values += follower.follow(value, method_frame(found, method), held)
    return values


def method_frame(owner: Instance, method: Function) -> Frame:
    """The frame of a method of a known object; for its constructor, the call is known too."""
    module = owner.of.module
    call = owner.call if method.name == "__init__" else None
    caller = owner.frame if call is not None else None
    return Frame(module, own_scope(module.scopes, method), method, call, caller, owner)


def _bases(follower: Resolver, owner: ClassFound, route: Route) -> list[ClassFound]:
    frame = Frame(owner.module, owner.module.scope(owner.node))
    return [
        found
        for base in owner.node.bases
        for found in follower.follow(base, frame, route)
        if isinstance(found, ClassFound) and found.node is not owner.node
    ]


def _method(node: ast.ClassDef, name: str) -> Function | None:
    return next((each for each in node.body if isinstance(each, Function) and each.name == name), None)


def _is_dataclass(node: ast.ClassDef) -> bool:
    makers = {"dataclass", "define", "frozen", "s", "attrs", "pydantic_dataclass", "chz"}
    names = {last_name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}
    return bool(names & makers) or bool(
        {"BaseModel", "BaseSettings", "NamedTuple"} & {last_name(b) for b in node.bases}
    )


def _field_position(node: ast.ClassDef, name: str) -> int | None:
    if method := _method(node, "__init__"):
        return position_of(method, name, bound=True)
    fields = [
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    return fields.index(name) if name in fields else None


def field_default(value: ast.expr) -> ast.expr:
    """The default in ``field(default=…)``; any other value is its own default."""
    if isinstance(value, ast.Call) and last_name(value.func) in {"field", "Field", "ib", "attrib"}:
        default = passed(value, "default", 0).value
        return default if default is not None else value
    return value
