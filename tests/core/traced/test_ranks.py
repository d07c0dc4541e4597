"""Recordings of the ranks of a job: every what-if is answered or left out with its reason, alone and together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skyline.analysis.estimate import answer as estimated
from skyline.analysis.estimate import ranked
from skyline.errors import UsageError
from skyline.job.job import job_of
from skyline.job.rank_reader import RankReader
from skyline.trace.kineto.reader import read
from skyline.whatif.question import Choice
from skyline.whatif.recorded import RankWhatIf, recorded
from skyline.whatif.subject import Subject

RANKS = [f"param_dlrm_rank{rank}of8" for rank in range(4)]
SYNC = "remove_sync"


def answered(one: Subject) -> None:
    """A change that closes a circle of waits raises ``CyclicGraph``, which none may."""
    answers = ranked(one)
    by_name = {answer.name: answer for answer in answers}
    assert SYNC in by_name
    for answer in answers:
        assert answer.applicable or answer.reason
        assert answer.iteration_ms.low > 0
    for name in (name for name, answer in by_name.items() if answer.applicable and name != SYNC):
        if by_name[SYNC].applicable:
            together = estimated(one, (Choice.parse(SYNC), Choice.parse(name)))
            assert together.applicable or together.reason


@pytest.mark.parametrize("published", RANKS, indirect=True)
def test_ranks_of_a_recommender(published: Any) -> None:
    answered(published.subject)


@pytest.mark.parametrize("rank", [0, 1])
def test_two_ranks_that_wait_for_each_other(two_ranks: Path, rank: int) -> None:
    answered(recorded(read(two_ranks / f"rank{rank}.json")))


def test_a_change_is_asked_of_all_ranks(two_ranks: Path) -> None:
    """The collective's transfer stays; that both ranks arrive sooner shortens the step of the job."""
    paths = [str(two_ranks / f"rank{rank}.json") for rank in range(2)]
    job = job_of(map(RankReader(whatif=RankWhatIf((Choice("amp"),))), paths))
    assert job.simulated is not None
    assert job.changed is not None
    assert job.changed.step_us < job.simulated.step_us - 1000


def test_a_change_that_adds_work_is_asked_of_all_ranks(shared_data: Path) -> None:
    """In 16 bits gradients are scaled: each rank has more tasks, and its collectives are the same ones as before."""
    paths = [str(shared_data / "traces" / f"{name}.json.gz") for name in RANKS]
    asked = RankWhatIf((Choice("amp", "fp16"),))
    trace = read(Path(paths[0]))
    assert len(asked(trace)) > len(recorded(trace).graph)
    job = job_of(map(RankReader(whatif=asked), paths))
    assert job.changed is not None
    alone = estimated(recorded(trace), asked.choices)
    assert job.changed.step_us > 0.9 * alone.iteration_ms.value * 1e3


def test_a_faster_network_shortens_what_is_transferred_and_the_waiting_follows(shared_data: Path) -> None:
    """Four of eight ranks, recorded on real GPUs: three of them wait in collectives for longer than data moves."""
    paths = [str(shared_data / "traces" / f"{name}.json.gz") for name in RANKS]
    job = job_of(map(RankReader(whatif=RankWhatIf((Choice("network", "2"),))), paths))
    assert job.simulated is not None
    assert job.changed is not None
    moved_us = job.split.transfer_us.sum()
    waited_us = job.split.waiting_us.sum(axis=1)
    assert sorted(waited_us)[1] > 0.5 * moved_us
    gained_us = job.simulated.step_us - job.changed.step_us
    # Half of the transfer at most, and nothing of the waiting.
    assert 0 < gained_us <= moved_us / 2 + 1


def test_what_cannot_be_asked_of_all_ranks_is_said(two_ranks: Path) -> None:
    with pytest.raises(UsageError, match="no convolution"):
        RankReader(whatif=RankWhatIf((Choice("channels_last"),)))(str(two_ranks / "rank0.json"))
