from __future__ import annotations

import json

import pytest

from skyline.errors import UsageError
from skyline.graph.from_kineto import built
from skyline.predict.fetching_costs import FetchingCosts
from skyline.trace.kineto.reader import read
from skyline.whatif.cost.fetching import batch_bytes, with_workers

FREE = FetchingCosts(0.0, 0.0, 0.0, 0.0, 0.0)
FETCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def span(category, name, start, duration, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration} | {
        "args": args
    }


@pytest.fixture
def training(tmp_path):
    """Steps of 100 µs, of which making a batch takes 60, and copying its 2 MB to the GPU 10."""

    def made(count, fetch=FETCH):
        found = []
        for step in range(count):
            start = 100 * step
            found += [
                span("user_annotation", f"ProfilerStep#{step}", start, 100),
                span("user_annotation", fetch, start, 60),
                span("cpu_op", "aten::to", start + 60, 30),
                span("cuda_runtime", "cudaMemcpyAsync", start + 60, 2, correlation=step + 1),
                span(
                    "gpu_memcpy",
                    "Memcpy HtoD (Pinned -> Device)",
                    start + 65,
                    10,
                    stream=7,
                    correlation=step + 1,
                    bytes=2_000_000,
                ),
            ]
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": found}), encoding="utf-8")
        trace = read(path)
        return trace, built(trace)

    return made


def test_enough_workers_hide_the_making(training) -> None:
    trace, recorded = training(8)
    answer = with_workers(trace, recorded, 4, FREE)
    # The first batches have to be made before they can be taken.
    assert answer.step_us[0] == 100
    assert answer.step_us[1:4] == (40, 40, 40)


def test_one_worker_that_is_slower_than_the_script_sets_the_pace(training) -> None:
    trace, recorded = training(8)
    assert with_workers(trace, recorded, 1, FREE).step_us[1:] == pytest.approx([60] * 7)


def test_taking_and_returning_a_batch_cost_the_script(training) -> None:
    trace, recorded = training(8)
    assert batch_bytes(trace, recorded) == 2_000_000
    dear = with_workers(trace, recorded, 4, FetchingCosts(5.0, 0.0, 2.0, 0.0, 0.0))
    assert dear.step_us[2] == pytest.approx(40 + 5 + 2 * 2)


def test_busy_workers_slow_the_script(training) -> None:
    trace, recorded = training(8)
    answer = with_workers(trace, recorded, 4, FetchingCosts(0.0, 0.0, 0.0, 0.0, 0.1))
    assert answer.busy_workers == pytest.approx(60 / 45.8, rel=0.02)
    assert answer.step_us[2] == pytest.approx(40 * (1 + 0.1 * answer.busy_workers), rel=0.02)


def test_without_fetches_on_the_scripts_thread_there_is_nothing_to_move(training) -> None:
    trace, recorded = training(3, fetch="load")
    with pytest.raises(UsageError, match="no batch being made"):
        with_workers(trace, recorded, 4)
