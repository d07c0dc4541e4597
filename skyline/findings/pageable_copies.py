"""SKY104: batches are copied to the GPU from unpinned memory, and the script waits for the copies."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import CallFact
from skyline.whatif.loader_setting import training_loader
from skyline.whatif.subject import Subject

_SHARE = 0.02
_LINES = 4
_MOVES = ("to", "cuda")


@dataclass(frozen=True, slots=True)
class PageableCopies:
    """Copies from pageable memory block the script for more than a fiftieth of the iteration.

    Nsight Systems has this rule without a threshold (``cuda_memcpy_async``: a copy from pageable memory is not
    asynchronous).
    """

    code: str = "SKY104"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the copying line; the cost is the predicted saving of pinned memory and ``non_blocking=True``."""
        if not subject.on_gpu:
            return None
        total_ms = step_ms(subject)
        cost_ms = saved_ms(subject, "pin_memory")
        if cost_ms <= _SHARE * total_ms:
            return None
        loader = training_loader(subject) if subject.profile is not None else None
        moves = [] if subject.profile is None else _moves(subject.script.calls)
        place = moves[0].line if moves else loader.created_line if loader is not None else None
        evidence = [
            Evidence.at("the script copies here, and waits for the copy", move.line)
            for move in moves[1:_LINES]
        ]
        if loader is not None and not loader.pin_memory:
            evidence.append(Evidence.at("this loader does not pin its batches", loader.created_line))
        return Finding.at(
            self.code,
            f"the script waits for copies from pageable memory, {cost_ms / total_ms:.0%} of the iteration",
            place,
            cost_ms,
            "pin_memory",
            tuple(evidence),
        )


def _moves(calls: tuple[CallFact, ...]) -> list[CallFact]:
    """Blocking moves of tensors from the host, the most frequent first."""
    found = [
        call
        for call in calls
        if call.name in _MOVES
        and call.line is not None
        and call.options.get("device") == "cpu"
        and call.options.get("copies") is not False
        and call.options.get("non_blocking") is not True
    ]
    return sorted(found, key=lambda call: -call.per_iteration)


RULE = PageableCopies()
