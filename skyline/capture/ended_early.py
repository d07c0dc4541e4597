"""What to say of a script that ran to its end before it could be measured."""

from __future__ import annotations

from skyline.capture.events import Ended
from skyline.errors import CaptureImpossible

LEAST_ITERATIONS = 4


def too_few(ended: Ended, *, least: int = LEAST_ITERATIONS) -> CaptureImpossible:
    """Why a script that ran to its end gave no profile: what was looked for, and what was seen."""
    count = ended.boundaries
    if count:
        return CaptureImpossible(
            f"The script ran to its end with only {count} training iteration{'s' if count > 1 else ''}; "
            f"at least {least} are needed",
            hint="Give it more iterations or more data for the profiling run.",
        )
    if ended.processes and not ended.optimizers:
        return CaptureImpossible(
            "The script ran to its end without a training step; it started other programs, and the training "
            "seems to happen there",
            hint=f"Profile the program that trains. It started: {'; '.join(ended.processes[:3])}",
        )
    made, passes, fetches = ended.optimizers, ended.backward_calls, ended.fetches
    seen = (
        f"{made} optimizer{'' if made == 1 else 's'} made, none stepped, "
        f"{passes} backward pass{'' if passes == 1 else 'es'}, {fetches} batches from data loaders"
    )
    return CaptureImpossible(
        "The script ran to its end without a training step",
        hint="Looked for a torch optimizer's step(), or backward() where there is no optimizer. "
        f"Saw: {seen}. Is this the script that trains, and do its arguments start training?",
    )
