"""Refusals that name their place in the code, and the values that changes are asked for with."""

from __future__ import annotations

from typing import Protocol

from skyline.errors import RewriteRefused

_ON = ("", "true", "1", "yes", "on")


def check_switched_on(name: str, value: str) -> None:
    """Refuses anything but "on", for changes that are made or not."""
    if value.lower() not in _ON:
        raise RewriteRefused(f"{value!r} is not a value for {name}", hint="Give the name alone.")


def whole_number(name: str, value: str, least: int = 1) -> int:
    """The number that a change is asked for with; refused where it is not one, or too small."""
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise RewriteRefused(
            f"{value!r} is not a value for {name}", hint=f"Give a whole number from {least}."
        )
    return number


class _File(Protocol):
    @property
    def path(self) -> str: ...


class _Placed(Protocol):
    @property
    def lineno(self) -> int: ...


def refusal(
    message: str, module: _File, node: _Placed, *, hint: str = "", snippet: str = ""
) -> RewriteRefused:
    """The error for a change that is not safe because of ``node``."""
    return RewriteRefused(message, file=module.path, line=node.lineno, hint=hint, snippet=snippet)
