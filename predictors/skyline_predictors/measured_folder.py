"""A folder of measured kernels, nodes and models, held against predictors."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from skyline.errors import UsageError
from skyline.predict.operator_time import OperatorPredictor
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.kernel_row import shape_of
from skyline_predictors.operator_graph import Row, has_graph, read_rows
from skyline_predictors.predictions import intervals, measured_us
from skyline_predictors.scores import Pair
from skyline_predictors.whole_model import NodeTime, model_time, node_times

_TimeOf = Callable[[str, str, int], NodeTime | None]
LEAST_NODE_MS = 0.05
"""Nodes that take less are mostly the timing itself."""


@dataclass(frozen=True)
class MeasuredFolder:
    """One split of the data in ``path``: files are told apart by ``split`` at the end of their names."""

    path: Path
    split: str

    @cached_property
    def unseen(self) -> frozenset[str]:
        """GPUs that no training file has kernels of, by the roles that the data give them."""
        rows = _optional(self.path / "devices.csv")
        return frozenset(row["gpu"] for row in rows if row.get("role") not in ("train", None, ""))

    def kernels(self, predictor: OperatorPredictor, file: str | None = None) -> list[Pair]:
        """Raw kernels; convolutions among them."""
        by_gpu: dict[str, list[Row]] = defaultdict(list)
        for row in _optional(self.path / (file or f"kernels_test_{self.split}.csv.gz")):
            by_gpu[row["gpu"]].append(row)
        pairs: list[Pair] = []
        for name, rows in by_gpu.items():
            device = gpu_of(name, self.path)
            shapes = [shape_of(row) for row in rows]
            times = measured_us(predictor, shapes, device)
            within = intervals(predictor, shapes, device)
            for row, time_us, (low, high) in zip(rows, times, within, strict=True):
                truth = float(row["latency_ms"])
                covered = low <= truth * 1e3 / time_us <= high
                pairs.append(
                    Pair(name, row["op"], row["op"], truth, time_us / 1e3, name in self.unseen, covered)
                )
        return pairs

    def models(self, predictor: OperatorPredictor, option: str = "") -> list[Pair]:
        """Whole models on one GPU: as written, or with ``fusion`` by a compiler."""
        pairs: list[Pair] = []
        for row in self.labels(option):
            time = model_time(row["graph"], row["gpu"], self.path, predictor).whole
            truth = float(row["e2e_ms"])
            pairs.append(
                Pair(
                    row["gpu"],
                    row["mode"],
                    row["graph"],
                    truth,
                    time.value,
                    row["gpu"] in self.unseen,
                    time.low <= truth <= time.high,
                )
            )
        return pairs

    def labels(self, option: str = "") -> list[Row]:
        """The measured whole models whose graph is in the folder."""
        rows = _optional(self.path / f"e2e_labels_{self.split}.csv")
        return [
            row
            for row in rows
            if (row.get("option") or "") == option and row.get("graph") and has_graph(row["graph"], self.path)
        ]

    def without_graph(self) -> list[str]:
        """Measured models that nothing can be said of."""
        rows = _optional(self.path / f"e2e_labels_{self.split}.csv")
        return [
            f"{row.get('model')} {row.get('mode')} {row.get('seq')}-{row.get('batch')} on {row['gpu']}"
            for row in rows
            if not row.get("option") and not (row.get("graph") and has_graph(row["graph"], self.path))
        ]

    def nodes(self, predictor: OperatorPredictor) -> tuple[list[Pair], list[Pair]]:
        """Nodes inside of models, forward and backward."""
        known: dict[tuple[str, str], dict[int, NodeTime]] = {}

        def time_of(graph: str, gpu: str, number: int) -> NodeTime | None:
            if (graph, gpu) not in known:
                times = node_times(graph, gpu, self.path, predictor)
                known[graph, gpu] = {time.number: time for time in times}
            return known[graph, gpu].get(number)

        return self._nodes(time_of)

    def published_models(self) -> dict[str, list[Pair]]:
        """The same models by the predictors whose answers are in the folder."""
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
                    row["gpu"] in self.unseen,
                )
            )
        return dict(found)

    def published_nodes(self) -> dict[str, tuple[list[Pair], list[Pair]]]:
        """The same nodes by those predictors."""
        answers: dict[str, dict[tuple[str, str, int], NodeTime]] = defaultdict(dict)
        for row in _optional(self.path / "published_op_predictions.csv.gz"):
            number = int(row["node"])
            answers[row["predictor"]][row["graph"], row["gpu"], number] = NodeTime(
                number, _number(row, "fw_ms"), _number(row, "bw_ms"), _number(row, "acc_ms")
            )
        return {name: self._nodes(partial(_answered, known)) for name, known in answers.items()}

    def _nodes(self, time_of: _TimeOf) -> tuple[list[Pair], list[Pair]]:
        forward: list[Pair] = []
        backward: list[Pair] = []
        for row in _optional(self.path / f"op_labels_{self.split}.csv.gz"):
            number = int(float(row["node"]))
            if number < 0 or not has_graph(row["graph"], self.path):
                continue
            truths = float(row["fw_ms"]), _number(row, "bw_ms")
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
                    unseen = row["gpu"] in self.unseen
                    pairs.append(Pair(row["gpu"], row["optype"], row["name"], truth, predicted, unseen))
        return forward, backward


def _answered(
    known: dict[tuple[str, str, int], NodeTime], graph: str, gpu: str, number: int
) -> NodeTime | None:
    return known.get((graph, gpu, number))


def _optional(path: Path) -> Iterator[Row]:
    """The rows of a file, none where it is missing: not every split has all of them."""
    try:
        yield from read_rows(path)
    except UsageError:
        return
    except csv.Error as error:
        raise UsageError(f"{path.name} cannot be read: {error}", hint="It should be a CSV file.") from None


def _number(row: Row, name: str) -> float:
    return float(row.get(name) or 0.0)
