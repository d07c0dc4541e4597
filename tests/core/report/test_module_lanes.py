"""The modules of an iteration, as nested rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyline.analysis.analyse import analyse
from skyline.report.module_lanes import MOST_DEPTH, ModuleLane, module_lanes
from skyline.report.timelines import sides_of, window
from skyline.trace import store
from skyline.trace.record import Phase, Record, RecordKind

RECORDED = Path(__file__).resolve().parents[2] / "data" / "linear.profile.json.gz"
MODULES = ("Net", "Net.encoder", "Net.encoder.layers.0", "Net.encoder.layers.1", "Net.head")


def records(*modules: int, phase: Phase = Phase.FORWARD) -> list[Record]:
    """Work of 10 us each, one after the other."""
    return [
        Record("aten::add", RecordKind.OPERATOR, phase, "cpu:main", 0, 10.0 * at, 10.0, module=module)
        for at, module in enumerate(modules)
    ]


def drawn(lanes: Sequence[ModuleLane]) -> list[tuple[str, list[tuple[str, float, float]]]]:
    return [
        (lane.name, [(one.label, one.first.start_us, one.end_us) for one in lane.spans]) for lane in lanes
    ]


def test_rows_nest() -> None:
    assert drawn(list(module_lanes(records(-1, 0, 2, 2, 3, 4), MODULES))) == [
        ("modules", [("Net", 10, 60)]),
        ("modules 2", [("encoder", 20, 50), ("head", 50, 60)]),
        ("modules 3", [("layers", 20, 50)]),
        ("modules 4", [("layers.0", 20, 40), ("layers.1", 40, 50)]),
    ]


def test_a_second_call_is_a_span_of_its_own() -> None:
    (lane,) = module_lanes(records(0, -1, 0), MODULES)
    assert [(one.first.start_us, one.end_us) for one in lane.spans] == [(0, 10), (20, 30)]


def test_the_engine_between_the_operators_of_a_backward_pass_splits_nothing() -> None:
    (lane,) = module_lanes(records(0, -1, 0, phase=Phase.BACKWARD), MODULES)
    assert [(one.first.start_us, one.end_us) for one in lane.spans] == [(0, 30)]


def test_parameter_groups_of_an_optimizer_are_no_modules() -> None:
    assert not list(module_lanes(records(0, 1, phase=Phase.OPTIMIZER), MODULES))


def test_a_row_that_repeats_the_one_above_is_left_out() -> None:
    wrapped = ("Parallel", "Parallel.module", "Parallel.module.a", "Parallel.module.b")
    lanes = list(module_lanes(records(2, 3), wrapped))
    assert [lane.name for lane in lanes] == ["modules", "modules 2"]
    assert [one.label for one in lanes[-1].spans] == ["a", "b"]
    assert len(lanes) <= MOST_DEPTH


def test_they_stand_below_the_lane_of_their_work() -> None:
    measured = window(sides_of(analyse(store.load(RECORDED)).baseline)).measured
    assert [lane.name for lane in measured.lanes] == ["cpu:main", "modules", "modules 2"]
    for lane in measured.lanes[1:]:
        assert all(end <= start + 1e-6 for end, start in zip(lane.end_ms, lane.start_ms[1:], strict=False))
