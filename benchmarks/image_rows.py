"""Published measurements of image models, and the traced programs behind them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from operator_table import OperatorTable, TableStore

FIRST_FUSED = (2, 0)
"""The version of PyTorch that introduced fused attention, and optimizers that update all parameters at once."""
FIRST_WIDENED = (2, 5)
"""The version since which attention without a fused kernel is computed in float32. Before, it was in 16 bits."""
_UNFUSED = "_safe_softmax"
"""A call that only attention without a fused kernel makes."""


@dataclass(frozen=True, slots=True)
class ImageRow:
    """One measurement: a step of a model on one GPU. ``layout`` is ``nchw`` or ``nhwc``."""

    model: str
    family: str
    training: bool
    gpu: str
    precision: str
    layout: str
    compiled: bool
    torch: tuple[int, int]
    image_size: int
    batch: int
    step_ms: float
    parameters_m: float

    @property
    def program(self) -> tuple[str, int, str, str, str, bool, bool, float]:
        """The program that is traced for the row. Rows of one program differ only in batch, GPU and 16-bit format."""
        precision = "amp" if self.precision.startswith("amp") else self.precision
        mode = "train" if self.training else "infer"
        return (
            self.model,
            self.image_size,
            mode,
            precision,
            self.layout,
            self.torch >= FIRST_FUSED,
            self.torch >= FIRST_WIDENED,
            self.parameters_m,
        )

    @property
    def renamed(self) -> dict[str, str]:
        """The number formats of the row, by the number formats of the traced program that they replace."""
        return {"float16": "bfloat16"} if "bf16" in self.precision else {}

    @property
    def step(self) -> tuple[object, ...]:
        """A key of the step. Rows with equal keys make the same calls, on any GPU."""
        return self.program, self.batch, self.compiled, tuple(self.renamed)

    @property
    def setting(self) -> tuple[str, str, str, bool]:
        """A key of the setting. Rows with equal keys differ only in the model."""
        mode = "train" if self.training else "infer"
        return (
            mode,
            self.gpu,
            f"{self.precision} {self.layout} {'.'.join(map(str, self.torch))}",
            self.compiled,
        )


def image_rows(folder: Path) -> list[ImageRow]:
    """All rows of ``timm.csv`` in a folder."""
    with (folder / "timm.csv").open(encoding="utf-8", newline="") as file:
        return [
            ImageRow(
                row["model"],
                row["family"],
                row["mode"] == "train",
                row["gpu"],
                row["precision"],
                row["layout"],
                row["compiled"] == "1",
                _version(row["torch"]),
                int(float(row["image_size"])),
                int(float(row["batch_size"])),
                float(row["step_ms"]),
                float(row["parameters_m"]),
            )
            for row in csv.DictReader(file)
        ]


def sampled(rows: Sequence[ImageRow], models: int) -> list[ImageRow]:
    """Rows of ``models`` models, spread over the families. The choice is always the same."""
    by_family: dict[str, list[str]] = {}
    for model in sorted({row.model for row in rows}, key=lambda one: sha256(one.encode()).hexdigest()):
        family = next(row.family for row in rows if row.model == model)
        by_family.setdefault(family, []).append(model)
    chosen: list[str] = []
    while len(chosen) < models and any(by_family.values()):
        for family in sorted(by_family):
            if by_family[family] and len(chosen) < models:
                chosen.append(by_family[family].pop())
    kept = set(chosen)
    return [row for row in rows if row.model in kept]


class Programs:
    """Operator tables of programs, from the store or from a process that traces them one by one."""

    def __init__(self, store: TableStore) -> None:
        self.store = store
        self._process: subprocess.Popen[str] | None = None
        self._read: dict[str, OperatorTable | None] = {}
        self.traced = 0

    def table(self, row: ImageRow) -> OperatorTable | None:
        """The operators of a row's program. None if it cannot be traced."""
        key = self.key(row)
        if key not in self._read:
            self._read[key] = self.store.get(key)
        return self._read[key]

    def key(self, row: ImageRow) -> str:
        """The name of a program in the store. Traces the program if it is not stored yet."""
        found = self._known(row)
        if found is None:
            found = json.dumps(row.program)
            self.store.put(found, self._trace(row.program))
            self.traced += 1
        return found

    def stored(self, row: ImageRow) -> bool:
        """True if a row's program is already stored."""
        return self._known(row) is not None

    def _known(self, row: ImageRow) -> str | None:
        """The name of a stored program that makes the row's calls: its own, or the program of the newest version."""
        key, newest = json.dumps(row.program), json.dumps((*row.program[:5], True, True, row.parameters_m))
        if key in self.store:
            return key
        if row.training or newest not in self.store:
            return None
        table = self.store.get(newest)
        if table is None:
            return newest
        # Versions differ in attention: before fused kernels in all attention, later only without a fused kernel.
        differs = ("scaled_dot_product", _UNFUSED) if row.torch < FIRST_FUSED else (_UNFUSED,)
        return None if any(mark in one.operator for one in table.calls for mark in differs) else newest

    def close(self) -> None:
        """End the tracing process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _trace(self, program: Iterable[Any]) -> dict[str, Any]:
        if self._process is None:
            script = Path(__file__).with_name("image_program.py")
            self._process = subprocess.Popen(
                [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(program)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            self._process = None
            return {"why": f"the tracing process ended with {code}"}
        return json.loads(answer)


def _version(text: str) -> tuple[int, int]:
    first, second = text.split(".")[:2]
    return int(first), int(second)
