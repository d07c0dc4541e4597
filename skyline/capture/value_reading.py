"""Asks a child for the values in the tensors of its iterations."""

from __future__ import annotations

import msgspec

from skyline.capture.bare import LONG_MS
from skyline.capture.child_process import ChildProcess
from skyline.capture.recording import ChildRecording
from skyline.capture.request import CaptureRequest
from skyline.trace.facts import ModuleFact
from skyline.trace.tensor_values import TensorValues

_SHARE = 0.25
"""Time to read values, as a share of the time for timing iterations."""
_MOST, _LEAST = 64, 2
"""Number of iterations whose values are read, if the script looks up rows of a large table."""
SLOWER = 2.0
"""Approximate maximum ratio of an iteration whose values are read to a bare one."""
_LEAST_BYTES = 1 << 20
_UNSEEN = ("torch.compile", "captured graph")
"""Styles without values: lookups and layers in compiled code and captured graphs are invisible, or would recompile."""


def tensor_values(
    child: ChildProcess,
    request: CaptureRequest,
    recording: ChildRecording,
    styles: tuple[str, ...],
    median_ms: float,
) -> TensorValues | None:
    """The values, or None if they cannot be read; raises ScriptEnded if the script ends meanwhile."""
    if request.recorded <= 1 or median_ms > LONG_MS or any(one in styles for one in _UNSEEN):
        return None
    seconds = _SHARE * request.settle_s
    affordable = max(_LEAST, min(_MOST, int(seconds * 1e3 / max(median_ms, 0.01))))
    iterations = affordable if has_large_table(recording) else 1
    child.send("values", iterations=iterations, seconds=seconds)
    return msgspec.convert(child.receive("values"), TensorValues)


def has_large_table(recording: ChildRecording) -> bool:
    """True if the model has a large embedding table, whose lookups are counted in many iterations."""
    return any(_is_large_table(module) for module in recording.modules)


def _is_large_table(module: ModuleFact) -> bool:
    return module.class_name in ("Embedding", "EmbeddingBag") and 4 * module.parameter_count >= _LEAST_BYTES
