"""Asking a child for the values in the tensors of its iterations."""

from __future__ import annotations

import msgspec

from skyline.capture.bare import LONG_MS
from skyline.capture.child_process import ChildProcess
from skyline.capture.recording import ChildRecording
from skyline.capture.request import CaptureRequest
from skyline.trace.facts import ModuleFact
from skyline.trace.tensor_values import TensorValues

_SHARE = 0.25
"""Share of the time for timing iterations that looking at values may take."""
_MOST, _LEAST = 64, 2
"""Iterations whose values are read, where a large table is looked up."""
SLOWER = 2.0
"""An iteration whose values are read, over one without: at most about that."""
_LEAST_BYTES = 1 << 20
_UNSEEN = ("torch.compile", "captured graph")
"""Compiled code and captured graphs call no lookup and no layer that could be seen, or would be compiled again."""


def tensor_values(
    child: ChildProcess,
    request: CaptureRequest,
    recording: ChildRecording,
    styles: tuple[str, ...],
    median_ms: float,
) -> TensorValues | None:
    """The values, or None where they cannot be seen; raises ScriptEnded where the script ends meanwhile."""
    if request.recorded <= 1 or median_ms > LONG_MS or any(one in styles for one in _UNSEEN):
        return None
    seconds = _SHARE * request.settle_s
    affordable = max(_LEAST, min(_MOST, int(seconds * 1e3 / max(median_ms, 0.01))))
    iterations = affordable if has_large_table(recording) else 1
    child.send("values", iterations=iterations, seconds=seconds)
    return msgspec.convert(child.receive("values"), TensorValues)


def has_large_table(recording: ChildRecording) -> bool:
    """True if there is a large table: its lookups are counted in many iterations."""
    return any(_is_large_table(module) for module in recording.modules)


def _is_large_table(module: ModuleFact) -> bool:
    return module.class_name in ("Embedding", "EmbeddingBag") and 4 * module.parameter_count >= _LEAST_BYTES
