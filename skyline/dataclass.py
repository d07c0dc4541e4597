"""Dataclasses that cost little until they are used.

``dataclasses.dataclass`` compiles up to six methods for each class. A command that answers from a saved profile imports
several hundred classes: that takes longer than its answer. Here ``__init__`` is compiled when the first object is
made, and the other methods read the fields without code of their own. All else is as with the standard decorator:
``fields``, ``replace``, ``asdict``, patterns, pickling, and classes of both kinds that inherit from one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import _FIELD, MISSING, Field, FrozenInstanceError, field, fields
    from inspect import get_annotations
    from operator import attrgetter
    from reprlib import recursive_repr
    from types import MemberDescriptorType, SimpleNamespace

    _NO_FIELD = (
        *("ClassVar", "typing.ClassVar", "InitVar", "dataclasses.InitVar"),
        *("KW_ONLY", "dataclasses.KW_ONLY"),
    )
    _OF_THE_CLASS = ("__dict__", "__weakref__")

    def dataclass(kind=None, /, *, init=True, repr=True, eq=True, frozen=False, slots=False):
        """The standard decorator, for the options that this project uses."""

        def decorated(kind):
            return _made(kind, SimpleNamespace(init=init, repr=repr, eq=eq, frozen=frozen, slots=slots))

        return decorated if kind is None else decorated(kind)

    def _made(kind, asked):
        known = {}
        for base in kind.__mro__[-1:0:-1]:
            known.update(getattr(base, "__dataclass_fields__", {}))
        own = [_field(kind, *each) for each in get_annotations(kind).items()]
        known.update((each.name, each) for each in own)
        added = {
            "__dataclass_fields__": known,
            "__dataclass_params__": asked,
            "__match_args__": tuple(each.name for each in known.values() if each.init),
        }
        if asked.repr:
            added["__repr__"] = _repr([each.name for each in known.values() if each.repr])
        if asked.eq:
            added["__eq__"] = _eq([each.name for each in known.values() if each.compare])
            if "__hash__" not in kind.__dict__ or ("__eq__" in kind.__dict__ and kind.__hash__ is None):
                hashed = [
                    one.name for one in known.values() if (one.compare if one.hash is None else one.hash)
                ]
                added["__hash__"] = _hash(hashed) if asked.frozen else None
        if asked.slots:
            made = _with_slots(kind, known, added, asked.frozen)
        else:
            made = kind
            for each in own:
                if each.default is not MISSING:
                    setattr(made, each.name, each.default)
                elif each.name in made.__dict__:
                    delattr(made, each.name)
            for name, value in added.items():
                if name == "__hash__" or name not in made.__dict__:
                    setattr(made, name, value)
        if asked.init and "__init__" not in made.__dict__:
            made.__init__ = _first_init(made, known, asked.frozen)
        if asked.frozen:
            _freeze(made, known)
        return made

    def _field(kind, name, annotation):
        if isinstance(annotation, str) and annotation.startswith(_NO_FIELD):
            raise TypeError(f"{kind.__qualname__}.{name} is no field: use dataclasses.dataclass")
        given = getattr(kind, name, MISSING)
        if isinstance(given, MemberDescriptorType):
            given = MISSING  # the slot of a base class
        found = given if isinstance(given, Field) else field(default=given)
        found.name, found.type, found.kw_only, found._field_type = name, annotation, False, _FIELD
        return found

    def _with_slots(kind, known, added, frozen):
        body = {
            name: value
            for name, value in kind.__dict__.items()
            if name not in known and name not in _OF_THE_CLASS
        }
        held = {slot for base in kind.__mro__[1:-1] for slot in _slots(base)}
        body["__slots__"] = tuple(name for name in known if name not in held)
        if frozen:
            # Pickling sets attributes one by one, which frozen classes refuse.
            added = {**added, "__getstate__": _state, "__setstate__": _restore}
        for name, value in added.items():
            if name == "__hash__" or name not in body:
                body[name] = value
        made = type(kind)(kind.__name__, kind.__bases__, body)
        made.__qualname__ = kind.__qualname__
        return made

    def _slots(base):
        slots = base.__dict__.get("__slots__", ())
        return (slots,) if isinstance(slots, str) else slots

    def _first_init(made, known, frozen):
        """An ``__init__`` that puts the compiled one in its place and calls it."""

        def __init__(self, /, *given, **named):
            made.__init__ = _init(made, known, frozen)
            made.__init__(self, *given, **named)

        return __init__

    def _init(made, known, frozen):
        scope = {"_set": object.__setattr__, "_absent": MISSING}
        parameters, lines = [], []
        for name, each in known.items():
            default, value = "", name
            if each.default_factory is not MISSING:
                scope[f"_new_{name}"] = each.default_factory
                default = "=_absent"
                value = f"_new_{name}() if {name} is _absent else {name}" if each.init else f"_new_{name}()"
            elif each.default is not MISSING:
                scope[f"_default_{name}"] = each.default
                default = f"=_default_{name}"
                value = name if each.init else f"_default_{name}"
            elif not each.init:
                continue
            if each.init:
                parameters.append(f"{name}{default}")
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(made, "__post_init__"):
            lines.append("self.__post_init__()")
        head = f"def __init__({', '.join(('self', *parameters))}):\n "
        exec(head + "\n ".join(lines or ["pass"]), scope)
        init = scope["__init__"]
        init.__qualname__, init.__module__ = f"{made.__qualname__}.__init__", made.__module__
        return init

    def _freeze(made, known):
        def __setattr__(self, name, value):
            if type(self) is made or name in known:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(made, self).__setattr__(name, value)

        def __delattr__(self, name):
            if type(self) is made or name in known:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(made, self).__delattr__(name)

        made.__setattr__, made.__delattr__ = __setattr__, __delattr__

    def _values(names):
        """A function that gives the values of an object's fields as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        return lambda one: tuple(getattr(one, name) for name in names)

    def _eq(names):
        values = _values(names)

        def __eq__(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        return __eq__

    def _hash(names):
        values = _values(names)
        return lambda self: hash(values(self))

    def _repr(names):
        @recursive_repr()
        def __repr__(self):
            shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{self.__class__.__qualname__}({shown})"

        return __repr__

    def _state(self):
        return [getattr(self, each.name) for each in fields(self)]

    def _restore(self, state):
        for each, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)
