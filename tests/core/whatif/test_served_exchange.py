"""Servers whose memory takes time, on a graph solved by hand.

Two layers take 10 ms in each pass. Of 20 MB and 10 MB two workers pass halves: 10 ms and 5 ms at 1 GB/s, once to the
server and once back. The server accesses its half 14 times: 10 ms and 5 ms at 14 GB/s.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.graph.replication import stitch
from skyline.whatif.baseline import baseline
from skyline.whatif.cost.worker_exchange import Workers

WORKERS, REACHED = Workers(2, 10.0), 0.8


@pytest.fixture
def exchange(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "benchmarks"))
    import served_exchange

    return served_exchange


@pytest.fixture
def subject(two_layers):
    return baseline(two_layers(10_000.0))


def test_a_server_reads_and_writes_each_number_fourteen_times_for_two_workers(exchange):
    assert exchange.Server(14_000.0).took_us(20e6, 2) == pytest.approx(10_000.0)


def test_whole_layers_wait_for_the_server_one_after_the_other(subject, exchange):
    """The second layer is pushed at 30 ms, summed at 40 ms and back at 60 ms. The server takes the first one at 50 ms.

    Its reply waits for the link until 60 ms, and the next forward pass begins at 65 ms.
    """
    graph = stitch(subject.operators, 12)
    found = exchange.served(subject, graph, WORKERS, REACHED, exchange.Server(14_000.0))
    assert subject.step_ms(found) == pytest.approx(65.0, rel=0.02)


def test_slices_by_priority_hide_the_server(subject, exchange):
    """As without servers: the first layer is back at 50 ms, the rest of the second one at 60 ms, when it is needed."""
    graph = stitch(subject.operators, 12)
    found = exchange.served(subject, graph, WORKERS, REACHED, exchange.Server(14_000.0), 250_000.0)
    assert subject.step_ms(found) == pytest.approx(50.0, rel=0.04)


def test_a_slow_server_bounds_the_step(subject, exchange):
    """14 accesses of 15 MB at 0.1 GB/s take 2.1 s, whatever the link and the GPU do meanwhile."""
    graph = stitch(subject.operators, 12)
    found = exchange.served(subject, graph, WORKERS, REACHED, exchange.Server(100.0), 250_000.0)
    assert subject.step_ms(found) == pytest.approx(2_100.0, rel=0.02)
