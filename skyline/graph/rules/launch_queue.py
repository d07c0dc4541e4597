"""Launch queue: a launch waits while the stream holds its maximum number of launches."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.draft import GraphDraft
from skyline.graph.rules.synchronisation import NO_WAITING, SynchronisationWaits

QUEUE_DEPTH = 1022
"""Launches in a stream before the next launch waits, as V100 and RTX 3060 Ti traces of CUDA 11 and 12 show. Of
1024 entries, the driver uses two."""
_ROUNDING_US = 5.0


def launch_queue(draft: GraphDraft, depth: int = QUEUE_DEPTH) -> SynchronisationWaits:
    """Launch n of a stream waits until the last work of its launch n - depth has ended.

    Launches from before the recording count too: their work is first in the stream. A launch of a whole graph
    counts once. If a launch in the trace returned before it had space by this rule, the rule is not applied there.
    """
    pieces: list[Ids] = []
    sources: list[Ids] = []
    bounds = np.append(
        np.flatnonzero(np.append(True, draft.work.lane[1:] != draft.work.lane[:-1])), len(draft.work)
    )
    for begin, behind in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        call = draft.work.call[begin:behind]
        # The last work of each launch; work without a recorded launch is a launch of its own.
        last = np.flatnonzero(np.append((call[1:] != call[:-1]) | (call[1:] < 0), True)) + begin
        if len(last) <= depth:
            continue
        launch = draft.launch[last[depth:]]
        source = (last[:-depth] + draft.first_work).astype(np.int32)
        holds = launch >= 0
        holds[holds] = draft.end_us[source[holds]] <= draft.end_us[launch[holds]] + _ROUNDING_US
        pieces.append(launch[holds].astype(np.int32))
        sources.append(source[holds])
    if not pieces:
        return NO_WAITING
    piece, source = np.concatenate(pieces), np.concatenate(sources)
    until = np.minimum(np.maximum(draft.start_us[piece], draft.end_us[source]), draft.end_us[piece])
    return SynchronisationWaits(piece, until, Dependencies.columns(source, piece, Cause.QUEUE))
