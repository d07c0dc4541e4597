"""The request in a launcher's words, and readers of options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """``words`` are the command after the launcher: ``SCRIPT ARGS…``, ``-m MODULE ARGS…`` or another launcher.

    ``ranks`` None: the launcher sets no number of processes. ``first`` are arguments that the launcher puts
    before the script's own. ``interpreter`` None: the launcher does not choose one.
    """

    words: tuple[str, ...]
    ranks: int | None = None
    variables: tuple[tuple[str, str], ...] = ()
    first: tuple[str, ...] = ()
    interpreter: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Options by name (``--num-processes``, with dashes), and the words after them."""

    values: dict[str, str]
    rest: tuple[str, ...]

    def number(self, name: str) -> int | None:
        """The number of processes. None if the option is not given. Raises UsageError for any other value."""
        value = self.values.get(name)
        if value is None:
            return None
        if not value.isdigit() or int(value) < 1:
            message = f"{name} {value}: a number of processes is needed here"
            raise UsageError(message, hint=f"Example: {name} 2")
        return int(value)

    def one_machine(self, name: str) -> None:
        """Raises UsageError if an option asks for more than one machine."""
        if self.values.get(name, "1") not in {"1", "1:1"}:
            hint = f"Run it here with {name} 1."
            raise UsageError("Only training on one machine can be profiled", hint=hint)


def options_before_script(words: Sequence[str], flags: Collection[str]) -> Options:
    """Reads options up to the script or ``-m``. Options that are not in ``flags`` take a value."""
    return _read(words, lambda name: name not in flags)


def options_with_values(words: Sequence[str], valued: Collection[str]) -> Options:
    """Reads options up to the command or ``-m``. Only options in ``valued`` take a value."""
    return _read(words, lambda name: name in valued)


def _read(words: Sequence[str], takes_value: Callable[[str], bool]) -> Options:
    values: dict[str, str] = {}
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] not in {"-m", "--module"}:
        if words[index] == "--":
            index += 1
            break
        name, equals, value = words[index].partition("=")
        name = name.replace("_", "-")
        index += 1
        if not equals and takes_value(name):
            value = words[index] if index < len(words) else ""
            index += 1
        values[name] = value
    return Options(values, tuple(words[index:]))
