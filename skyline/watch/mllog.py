"""The log lines of MLPerf trainings, ``:::MLLOG {...}``, and the progress of the training that they state."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast

from skyline.lazy_dataclass import dataclass

MARK = ":::MLLOG"
_COUNTS_FROM = 100_000.0
"""Some benchmarks put a number of samples into ``epoch_num``: no training has this many epochs."""
_NO_RESULT = {"eval_start", "eval_stop", "eval_samples"}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line. ``epoch`` and ``samples`` give the progress of the training, ``status`` the outcome of the run."""

    key: str
    value: float | str | None = None
    time_s: float = 0.0
    epoch: float | None = None
    samples: float | None = None
    status: str = ""


@dataclass(frozen=True, slots=True)
class LoggedTraining:
    """The state of a training according to its own log.

    ``epoch_samples`` are the samples per epoch, ``metric`` the name of the quality whose values are
    ``quality`` and ``target``. ``status`` is ``success`` or ``aborted`` at the end, ``seconds`` the time
    since the start of the run.
    """

    benchmark: str = ""
    batch_size: float | None = None
    epoch_samples: float | None = None
    epoch: float | None = None
    samples: float | None = None
    metric: str = ""
    quality: float | None = None
    target: float | None = None
    status: str = ""
    seconds: float | None = None
    began_s: float | None = None

    @classmethod
    def of_history(cls, entry: Mapping[str, Any]) -> LoggedTraining:
        """The state in an entry of a history, which also has other fields."""
        names = {one.name for one in fields(cls)}
        return cls(**{key: value for key, value in entry.items() if key in names})

    def after(self, entry: LogEntry) -> LoggedTraining:
        """The state after one more line."""
        key, value = entry.key, entry.value
        known = replace(self, **_position(self, entry))
        if key == "submission_benchmark" and isinstance(value, str):
            return replace(known, benchmark=value)
        if key == "run_start":
            return replace(known, began_s=entry.time_s, seconds=0.0)
        if self.began_s is not None:
            known = replace(known, seconds=max(0.0, entry.time_s - self.began_s))
        if key == "run_stop":
            return replace(known, status=entry.status)
        if not isinstance(value, float):
            return known
        if key == "global_batch_size":
            return replace(known, batch_size=value)
        if key == "train_samples":
            return replace(known, epoch_samples=value)
        if key.startswith("target_") or key.endswith("_target"):
            return replace(known, target=value)
        if key.startswith("eval_") and key not in _NO_RESULT:
            return replace(known, metric=key, quality=value)
        return known

    @property
    def words(self) -> str:
        """``epoch 3.20, eval_accuracy 0.741 (target 0.759)``; empty if nothing is known."""
        parts: list[str] = []
        if self.epoch is not None:
            parts.append(f"epoch {self.epoch:.4g}")
        elif self.samples is not None:
            parts.append(f"{self.samples:,.0f} samples")
        if self.quality is not None:
            goal = "" if self.target is None else f" (target {self.target:.4g})"
            parts.append(f"{self.metric} {self.quality:.4g}{goal}")
        if self.status:
            parts.append(self.status)
        return ", ".join(parts)


def read_entry(text: str) -> LogEntry | None:
    """The entry in a line of output, which may begin with a rank; None if there is none, or it is damaged."""
    _, mark, rest = text.partition(MARK)
    if not mark:
        return None
    try:
        content, _ = json.JSONDecoder().raw_decode(rest.strip())
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    entry = cast("dict[str, Any]", content)
    found = entry.get("metadata")
    metadata = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    value = entry.get("value")
    epoch = _number(metadata.get("epoch_num"))
    samples = _number(metadata.get("samples_count"))
    if epoch is not None and epoch >= _COUNTS_FROM:
        epoch, samples = None, epoch if samples is None else samples
    return LogEntry(
        str(entry.get("key", "")),
        value if isinstance(value, str) else _number(value),
        (_number(entry.get("time_ms")) or 0.0) / 1e3,
        epoch,
        samples,
        str(metadata.get("status", "")),
    )


def _position(known: LoggedTraining, entry: LogEntry) -> dict[str, float]:
    """Epoch and samples after a line; either follows from the other if the samples of an epoch are known."""
    epoch, samples = entry.epoch, entry.samples
    if known.epoch_samples:
        if samples is None and epoch is not None:
            samples = epoch * known.epoch_samples
        elif epoch is None and samples is not None:
            epoch = samples / known.epoch_samples
    found = {"epoch": epoch, "samples": samples}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: object) -> float | None:
    """A finite number; None for anything else, including booleans."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None
