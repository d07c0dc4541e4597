"""Failures of scripts that have a known cause, and the next step for each."""

from __future__ import annotations

import re

_MORE_ROOM = (
    "Files of a profiled script go to the folder for temporary files: set TMPDIR to one with more room."
)
_NO_MODULE = (
    "The script's interpreter has no module {name}. Install it there, or name another interpreter: "
    "--interpreter PYTHON."
)
_NO_GPU = "PyTorch finds no GPU here. Predict for one without running it: skyline profile --gpu h100 SCRIPT."
_NEXT_STEPS = {
    r"No space left on device": _MORE_ROOM,
    r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'": _NO_MODULE,
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available": _NO_GPU,
}


def next_step(message: str) -> str:
    """The advice for an error of the script; empty where the cause is not known."""
    for pattern, advice in _NEXT_STEPS.items():
        found = re.search(pattern, message)
        if found is not None:
            return advice.format(**found.groupdict())
    return ""
