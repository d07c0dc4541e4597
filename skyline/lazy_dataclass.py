"""Frozen dataclasses whose methods are compiled on first use.

``dataclasses.dataclass`` compiles six methods for each class, which takes 0.3 ms. A command defines four hundred
classes, of which it creates a third, and compares, hashes or prints few.
"""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """As ``dataclasses.dataclass``, which still makes all classes except frozen ones with slots and no bases."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        eq = options.get("eq", True)
        usual = {**options, "eq": eq} == {"frozen": True, "slots": True, "eq": eq}
        if not usual or any(map(dataclasses.is_dataclass, cls.__mro__[1:])):
            return dataclasses.dataclass(**options)(cls)
        return _lazy(cls, eq)


__all__ = ["dataclass"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Template:
    """The attributes that all frozen dataclasses with slots have in common."""


def _lazy(given: type, eq: bool) -> type:
    written = {name for name, value in vars(given).items() if value is not None}
    bare: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)
    cls: Any = bare(given)

    def refuse(self: object, name: str, *value: object) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
        change: Any = object.__setattr__ if value else object.__delattr__
        change(self, name, *value)

    def wait(names: tuple[str, ...], **options: bool) -> None:
        missing = [name for name in names if name not in written]

        def waiting(name: str) -> Any:
            def method(self: object, *arguments: Any, **named: Any) -> Any:
                made = vars(_compiled(cls, **options))
                for each in missing:
                    setattr(cls, each, made[each])
                return made[name](self, *arguments, **named)

            return method

        for name in missing:
            setattr(cls, name, waiting(name))

    cls.__setattr__ = cls.__delattr__ = refuse
    wait(("__init__",), repr=False, eq=False)
    wait(("__repr__", "__eq__", "__hash__") if eq else ("__repr__",), init=False, eq=eq)
    for name in ("__dataclass_params__", "__getstate__", "__setstate__"):
        setattr(cls, name, getattr(_Template, name))
    return cls


def _compiled(cls: type, **options: bool) -> type:
    """A subclass with the methods from the standard library."""
    # Without a docstring the standard library would derive one from the signature, which takes as long as the rest.
    alike = {"__doc__": cls.__name__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made = type(cls)(cls.__name__, (cls,), alike)
    return dataclasses.dataclass(frozen=True, **options)(made)
