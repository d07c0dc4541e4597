"""A folder of measured kernels, nodes and models, for comparison with predictors."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from skyline.errors import UsageError
from skyline.predict.operator_time import OperatorPredictor
from skyline.trace.record import OperatorShape
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.kernel_row import shape_of
from skyline_predictors.operator_graph import NODES, OPERATORS, Row, has_graph, read_rows
from skyline_predictors.predictions import intervals, measured_us
from skyline_predictors.scores import Pair
from skyline_predictors.whole_model import NodeTime, model_time, node_times

_TimeOf = Callable[[str, str, int], NodeTime | None]
_OPTIONS = ("", "fusion")
LEAST_NODE_MS = 0.05
"""Nodes that take less time consist mostly of the timing overhead."""


@dataclass(frozen=True)
class MeasuredFolder:
    """One split of the data in ``path``: the names of its files end in ``split``.

    ``left_out`` holds the reason for each omission of rows, with their number.
    """

    path: Path
    split: str
    left_out: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def files(self) -> tuple[str, str, str]:
        """The names of the split's own files: kernels, nodes and models."""
        return (
            f"kernels_test_{self.split}.csv.gz",
            f"op_labels_{self.split}.csv.gz",
            f"e2e_labels_{self.split}.csv",
        )

    def check(self) -> None:
        """Check that there is something to score. Missing files are noted in ``left_out``.

        Raises:
            UsageError: the folder holds none of the split's files.
        """
        if not self.path.is_dir():
            raise UsageError(f"there is no folder {self.path}", hint="Name the folder of the measured data.")
        missing = [name for name in self.files if not (self.path / name).is_file()]
        if len(missing) == len(self.files):
            raise UsageError(
                f"{self.path} has nothing measured of the split {self.split!r}",
                hint=f"One of these files at least is needed: {', '.join(self.files)}.",
            )
        for name in (
            *missing,
            *(one for one in ("devices.csv", NODES, OPERATORS) if not (self.path / one).is_file()),
        ):
            self.left_out[f"no file {name}"] = 0

    @cached_property
    def _learned_from(self) -> frozenset[str]:
        """GPUs with kernels in a training file, by the roles that the data assign to them."""
        rows = _optional(self.path / "devices.csv")
        return frozenset(row.get("gpu") or "" for row in rows if row.get("role") == "train")

    def is_unseen(self, gpu: str) -> bool:
        """True unless the data list the GPU as one whose kernels were used for training."""
        return gpu not in self._learned_from

    def kernels(self, predictor: OperatorPredictor, file: str | None = None) -> list[Pair]:
        """Measured kernels, including convolutions."""
        by_gpu: dict[str, list[tuple[Row, OperatorShape, float]]] = defaultdict(list)
        why: dict[str, int] = defaultdict(int)
        name = file or self.files[0]
        for row in _optional(self.path / name):
            truth = _number(row, "latency_ms")
            if truth <= 0:
                why[f"{name}: no time in latency_ms"] += 1
                continue
            try:
                by_gpu[row.get("gpu") or ""].append((row, shape_of(row), truth))
            except UsageError as error:
                why[f"{name}: {_said(error)}"] += 1
        pairs: list[Pair] = []
        for gpu, rows in by_gpu.items():
            try:
                device = gpu_of(gpu, self.path)
            except UsageError as error:
                why[f"{name}: {_said(error)}"] += len(rows)
                continue
            shapes = [shape for _, shape, _ in rows]
            times = measured_us(predictor, shapes, device)
            within = intervals(predictor, shapes, device)
            for (row, _, truth), time_us, (low, high) in zip(rows, times, within, strict=True):
                covered = low <= truth * 1e3 / time_us <= high
                pairs.append(
                    Pair(gpu, row["op"], row["op"], truth, time_us / 1e3, self.is_unseen(gpu), covered)
                )
        self.left_out.update(why)
        return pairs

    def models(self, predictor: OperatorPredictor, option: str = "") -> list[Pair]:
        """Whole models on one GPU. With the option ``fusion``, a compiler has fused their operators."""
        pairs: list[Pair] = []
        for row in self.labels(option):
            try:
                time = model_time(row["graph"], row["gpu"], self.path, predictor).whole
            except UsageError as error:
                self.left_out[f"{self.files[2]}: {row['graph']} on {row['gpu']}: {_said(error)}"] = 1
                continue
            truth = _number(row, "e2e_ms")
            pairs.append(
                Pair(
                    row["gpu"],
                    row["mode"],
                    row["graph"],
                    truth,
                    time.value,
                    self.is_unseen(row["gpu"]),
                    time.low <= truth <= time.high,
                )
            )
        return pairs

    def labels(self, option: str = "") -> list[Row]:
        """The measured whole models whose graphs are in the folder."""
        return [
            row for row in self._measured_models() if (row.get("option") or "") == option and self._has(row)
        ]

    def without_graph(self) -> list[str]:
        """Measured models that cannot be predicted, because their graph is missing."""
        return [
            f"{row.get('model')} {row.get('mode')} {row.get('seq')}-{row.get('batch')} on {row['gpu']}"
            for row in self._measured_models()
            if not row.get("option") and not self._has(row)
        ]

    def _measured_models(self) -> Iterator[Row]:
        without = elsewhere = 0
        for row in _optional(self.path / self.files[2]):
            elsewhere += (row.get("option") or "") not in _OPTIONS
            if _number(row, "e2e_ms") > 0 and row.get("gpu"):
                yield row
            else:
                without += 1
        if without:
            self.left_out[f"{self.files[2]}: no GPU or no time in e2e_ms"] = without
        if elsewhere:
            self.left_out[f"{self.files[2]}: models on several GPUs, or with other options"] = elsewhere

    def _has(self, row: Row) -> bool:
        return bool(row.get("graph")) and has_graph(row["graph"], self.path)

    def nodes(self, predictor: OperatorPredictor) -> tuple[list[Pair], list[Pair]]:
        """Nodes of models, forward and backward."""
        known: dict[tuple[str, str], dict[int, NodeTime]] = {}

        def time_of(graph: str, gpu: str, number: int) -> NodeTime | None:
            if (graph, gpu) not in known:
                try:
                    times = node_times(graph, gpu, self.path, predictor)
                except UsageError as error:
                    self.left_out[f"{self.files[1]}: {graph} on {gpu}: {_said(error)}"] = 1
                    times = []
                known[graph, gpu] = {time.number: time for time in times}
            return known[graph, gpu].get(number)

        return self._nodes(time_of)

    def published_models(self) -> dict[str, list[Pair]]:
        """The same models as predicted by the predictors whose answers are in the folder."""
        truths = {
            (row["model"], row["gpu"], row["mode"], row["seq"], row["batch"]): row for row in self.labels()
        }
        found: dict[str, list[Pair]] = defaultdict(list)
        for row in _optional(self.path / "published_predictions.csv"):
            key = row["model"], row["gpu"], row["mode"], row["seq"], row["batch"]
            truth = truths.get(key)
            if row.get("option") or truth is None or not row.get("e2e_ms"):
                continue
            found[row["predictor"]].append(
                Pair(
                    row["gpu"],
                    row["mode"],
                    truth["graph"],
                    float(truth["e2e_ms"]),
                    float(row["e2e_ms"]),
                    self.is_unseen(row["gpu"]),
                )
            )
        return dict(found)

    def published_kernels(self, file: str, column: str) -> list[Pair]:
        """The kernels of a file as predicted by another predictor, whose answers are in the column."""
        return [
            Pair(
                row["gpu"], row["op"], row["op"], _number(row, "latency_ms"), _number(row, column),
                self.is_unseen(row["gpu"]),
            )
            for row in _optional(self.path / file)
            if _number(row, "latency_ms") > 0 and _number(row, column) > 0
        ]  # fmt: skip

    def published_nodes(self) -> dict[str, tuple[list[Pair], list[Pair]]]:
        """The same nodes as predicted by the predictors whose answers are in the folder."""
        answers: dict[str, dict[tuple[str, str, int], NodeTime]] = defaultdict(dict)
        for row in _optional(self.path / "published_op_predictions.csv.gz"):
            number = _node(row)
            answers[row["predictor"]][row["graph"], row["gpu"], number] = NodeTime(
                number, _number(row, "fw_ms"), _number(row, "bw_ms")
            )
        return {name: self._nodes(partial(_answered, known)) for name, known in answers.items()}

    def _nodes(self, time_of: _TimeOf) -> tuple[list[Pair], list[Pair]]:
        forward: list[Pair] = []
        backward: list[Pair] = []
        for row in _optional(self.path / self.files[1]):
            number = _node(row)
            if number < 0 or not (row.get("gpu") and self._has(row)):
                continue
            truths = _number(row, "fw_ms"), _number(row, "bw_ms")
            if max(truths) < LEAST_NODE_MS:
                continue
            time = time_of(row["graph"], row["gpu"], number)
            if time is None:
                continue
            for truth, predicted, pairs in (
                (truths[0], time.forward_ms, forward),
                (truths[1], time.backward_ms, backward),
            ):
                if truth >= LEAST_NODE_MS:
                    unseen = self.is_unseen(row["gpu"])
                    kind, name = row.get("optype") or "", row.get("name") or ""
                    pairs.append(Pair(row["gpu"], kind, name, truth, predicted, unseen))
        return forward, backward


def _answered(
    known: dict[tuple[str, str, int], NodeTime], graph: str, gpu: str, number: int
) -> NodeTime | None:
    return known.get((graph, gpu, number))


def _optional(path: Path) -> Iterator[Row]:
    """The rows of a file. Empty if it is missing, because not every split has all files.

    Raises:
        UsageError: it is there and cannot be read.
    """
    if not path.is_file():
        return
    try:
        yield from read_rows(path)
    except (csv.Error, OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path.name} cannot be read: {error}",
            hint="It should be a CSV file, packed by gzip if it ends in .gz.",
        ) from None


def _number(row: Mapping[str, str | None], name: str) -> float:
    """The number in a column; 0 where it has none."""
    try:
        value = float(row.get(name) or 0.0)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _said(error: UsageError) -> str:
    """The message of the error, without its hint."""
    return str(error).partition("\n")[0]


def _node(row: Mapping[str, str | None]) -> int:
    """The number of a node. -1 if the row has none."""
    return int(_number(row, "node")) if row.get("node") else -1
