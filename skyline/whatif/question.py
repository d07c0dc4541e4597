"""A person's question: a batch size, some what-ifs, or both together."""

from __future__ import annotations

from collections.abc import Iterable

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass

MOST = 1_000_000_000
"""No batch, number of processes or size in MB comes near; sums of bytes still fit into 64 bits."""
MOST_AT_ONCE = 1024
"""Of what is simulated one by one, such as worker processes and parts of a batch: more would not fit into memory."""


def whole_number(name: str, value: str, least: int = 1, most: int = MOST) -> int:
    """A value of at least ``least`` and at most ``most``.

    Raises:
        UsageError: it is not one.
    """
    try:
        number = int(value)
    except ValueError:
        # Text, or more digits than Python reads.
        number = most + 1 if value.strip("+").isdecimal() else least - 1
    if number > most:
        raise UsageError(
            f"{name}={_brief(value)} is too large", hint=f"Give a whole number up to {most:,}: {name}=64."
        )
    if number < least:
        raise UsageError(
            f"{name}={value} is not possible", hint=f"Give a whole number from {least}: {name}=2."
        )
    return number


def _brief(value: str) -> str:
    return value if len(value) <= 24 else f"{value[:20]}… ({len(value)} digits)"


BATCH_SIZE = "batch_size"


@dataclass(frozen=True, slots=True)
class Choice:
    """One what-if by name with its value as text (``num_workers``, ``2``); empty value: its default."""

    name: str
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Choice:
        """From ``NAME`` or ``NAME=VALUE``, as typed on a command line or sent by a client."""
        name, _, value = text.partition("=")
        if not name.strip():
            raise UsageError(
                f"{text!r} is not a what-if", hint="Write NAME or NAME=VALUE, as in num_workers=2."
            )
        return cls(name.strip(), value.strip())

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name


@dataclass(frozen=True, slots=True)
class Question:
    """A combination to predict: ``batch_size`` None leaves it as it is."""

    batch_size: int | None = None
    choices: tuple[Choice, ...] = ()

    @classmethod
    def parse(cls, batch_size: int | None, whatifs: Iterable[str]) -> Question:
        """From the fields of a client's request. Raises UsageError if one is invalid."""
        return cls(batch_size, tuple(map(Choice.parse, whatifs)))

    @property
    def all_choices(self) -> tuple[Choice, ...]:
        """The batch size, as a what-if like others, and the others."""
        size = () if self.batch_size is None else (Choice(BATCH_SIZE, str(self.batch_size)),)
        return (*size, *self.choices)

    def __post_init__(self) -> None:
        """Raise UsageError for a batch size that none can be: it comes from outside in many ways."""
        size = self.batch_size
        if size is not None and not 1 <= size <= MOST:
            # Python itself refuses to print thousands of digits.
            raise UsageError(
                "the batch size is out of range", hint=f"Give a whole number from 1 to {MOST:,}."
            )
