"""The operators of a traced program in compact form: their kinds, their counts, and their growth with the batch."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from skyline.trace.record import OperatorShape

STORE = Path(__file__).with_name("published_tables.json.xz")
TRACED_BATCH = 1009
"""A prime that is no factor of any size in a model. A dimension divisible by it grows with the batch."""
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """A quantity that grows with the batch: ``fixed`` + ``each`` x batch size."""

    fixed: int
    each: int

    def at(self, batch: int) -> int:
        """The quantity at a batch size."""
        return self.fixed + self.each * batch


@dataclass(frozen=True, slots=True)
class TableRow:
    """One operator call, with the number of times that a program makes it.

    A negative dimension is a multiple of the batch size: -2 is twice the batch size.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    outputs: tuple[tuple[int, ...], ...]
    output_dtypes: tuple[str, ...]
    layout: str
    flops: Linear
    moved_bytes: Linear
    count: int

    def at(self, batch: int, renamed: Mapping[str, str]) -> OperatorShape:
        """The call at a batch size, with number formats renamed as given."""
        return OperatorShape(
            self.operator,
            tuple(_sized(one, batch) for one in self.inputs),
            tuple(renamed.get(one, one) for one in self.dtypes),
            tuple(_sized(one, batch) for one in self.outputs),
            tuple(renamed.get(one, one) for one in self.output_dtypes),
            self.flops.at(batch),
            self.moved_bytes.at(batch),
            self.layout,
        )


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """A program: its calls one by one, its calls as fused by a compiler, and its memory.

    ``peaks`` are candidates for the peak of live memory; the largest counts. ``held_bytes`` are the weights.
    """

    calls: tuple[TableRow, ...]
    fused: tuple[TableRow, ...]
    peaks: tuple[Linear, ...]
    held_bytes: int

    def peak_bytes(self, batch: int) -> int:
        """Peak of live tensor memory at a batch size."""
        return max(one.at(batch) for one in self.peaks)


def symbolic(size: Iterable[int]) -> tuple[int, ...]:
    """A traced size with multiples of the batch marked."""
    return tuple(-(one // TRACED_BATCH) if one and one % TRACED_BATCH == 0 else one for one in size)


def linear(quantity: int) -> Linear:
    """A traced product of sizes as a linear quantity, which either grows with the batch or does not."""
    if quantity and quantity % TRACED_BATCH == 0:
        return Linear(0, quantity // TRACED_BATCH)
    return Linear(quantity, 0)


class TableStore:
    """Tables by key in one compressed file. Rows that several programs share are written once."""

    def __init__(self, path: Path = STORE) -> None:
        self._path = path
        self._tables: dict[str, Any] = {}
        self._rows: list[Row] = []
        self._known: dict[str, int] = {}
        if path.exists():
            content = json.loads(lzma.decompress(path.read_bytes()))
            self._tables, self._rows = content["tables"], content["rows"]
            self._known = {json.dumps(row): place for place, row in enumerate(self._rows)}

    def __contains__(self, key: str) -> bool:
        return key in self._tables

    def __len__(self) -> int:
        return len(self._tables)

    def get(self, key: str) -> OperatorTable | None:
        """The table of a program. None if it is not stored, or could not be traced."""
        table = self._tables.get(key)
        if table is None or "why" in table:
            return None
        return OperatorTable(
            self._read(table["calls"]),
            self._read(table["fused"]),
            tuple(Linear(*one) for one in table["peaks"]),
            table["held"],
        )

    def why_missing(self, key: str) -> str:
        """The reason why a program could not be traced."""
        return str((self._tables.get(key) or {}).get("why", "not traced"))

    def put(self, key: str, table: Mapping[str, Any]) -> None:
        """Store a table from the tracing process: rows of plain values, or the reason for a failure."""
        if "why" in table:
            self._tables[key] = dict(table)
            return
        self._tables[key] = {
            "calls": self._written(table["calls"]),
            "fused": self._written(table["fused"]),
            "peaks": table["peaks"],
            "held": table["held"],
        }

    def save(self) -> None:
        """Write the file without failures, because the next run may be able to trace these programs."""
        tables = {key: table for key, table in self._tables.items() if "why" not in table}
        content = json.dumps({"tables": tables, "rows": self._rows}, separators=(",", ":"))
        self._path.write_bytes(lzma.compress(content.encode(), preset=6))

    def _written(self, rows: Iterable[tuple[Row, int]]) -> list[int]:
        """Indices and counts of rows in turn. Each index is the difference from the previous one."""
        found: list[int] = []
        before = 0
        for row, count in rows:
            text = json.dumps(row)
            place = self._known.setdefault(text, len(self._rows))
            if place == len(self._rows):
                self._rows.append(json.loads(text))
            found += [place - before, count]
            before = place
        return found

    def _read(self, numbers: list[int]) -> tuple[TableRow, ...]:
        found: list[TableRow] = []
        place = 0
        for step, count in zip(numbers[::2], numbers[1::2], strict=True):
            place += step
            operator, inputs, dtypes, outputs, output_dtypes, layout, flops, moved = self._rows[place]
            found.append(
                TableRow(
                    operator,
                    tuple(tuple(one) for one in inputs),
                    tuple(dtypes),
                    tuple(tuple(one) for one in outputs),
                    tuple(output_dtypes),
                    layout,
                    Linear(*flops),
                    Linear(*moved),
                    count,
                )
            )
        return tuple(found)


def _sized(size: tuple[int, ...], batch: int) -> tuple[int, ...]:
    return tuple(-one * batch if one < 0 else one for one in size)


def elements(size: tuple[int, ...]) -> int:
    """The number of elements of a tensor."""
    return prod(size)
