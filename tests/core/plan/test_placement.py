from itertools import product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.errors import UsageError
from skyline.plan import placement_program
from skyline.plan.placement import GraphLayer, LayerGraph, StageLimits, ideals, place, stage_cost
from skyline.plan.placement_program import place_by_program

# Two branches between a first and a last layer: 0 -> 1 -> 2 -> 5 and 0 -> 3 -> 4 -> 5.
BRANCHES = ((0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5))


def layers(*times_us, **more):
    return tuple(GraphLayer(time_us, **more) for time_us in times_us)


def free(stages):
    return StageLimits(inf, (1.0,) * stages)


def checked(graph, limits, found):
    """The time of the slowest stage of a placement, after all that a placement promises."""
    assert sorted(one for stage in found.stages for one in stage) == list(range(len(graph.layers)))
    assert len(found.stages) == limits.stages
    assert all(found.stages)
    stage_of = {one: number for number, stage in enumerate(found.stages) for one in stage}
    assert all(stage_of[before] <= stage_of[after] for before, after in graph.edges)
    costs = [
        stage_cost([graph.layers[one] for one in stage], limits, number)
        for number, stage in enumerate(found.stages)
    ]
    assert [again for _, again in costs] == list(found.recomputed)
    assert max(time_us for time_us, _ in costs) == pytest.approx(found.slowest_us)
    return found.slowest_us


def by_trying_all(graph, limits):
    """The least time of the slowest stage over all assignments of layers to stages; infinite if none fits."""
    best = inf
    for stages in product(range(limits.stages), repeat=len(graph.layers)):
        if len(set(stages)) < limits.stages or any(stages[one] > stages[two] for one, two in graph.edges):
            continue
        slowest = 0.0
        for stage, held in enumerate(limits.held):
            own = [graph.layers[one] for one, on in enumerate(stages) if on == stage]
            times = [inf]
            states = sum(one.state_bytes for one in own)
            if states + held * sum(one.kept_bytes for one in own) <= limits.room_bytes:
                times.append(sum(one.time_us for one in own))
            less = held * sum(one.input_bytes for one in own) + max(one.kept_bytes for one in own)
            if limits.recompute and states + less <= limits.room_bytes:
                times.append(sum(one.time_us + one.again_us for one in own))
            slowest = max(slowest, min(times))
        best = min(best, slowest)
    return best


@st.composite
def problems(draw):
    count = draw(st.integers(2, 6))
    size = st.integers(0, 9)
    made = []
    for _ in range(count):
        kept = draw(size)
        made.append(
            GraphLayer(
                draw(st.integers(1, 9)), draw(size), kept, draw(size), min(kept, draw(st.integers(0, 3)))
            )
        )
    pairs = [(one, two) for two in range(count) for one in range(two)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=8, unique=True))
    stages = draw(st.integers(1, min(3, count)))
    # The first stages of 1F1B keep the most micro-batches.
    held = tuple(float(stages - stage) for stage in range(stages))
    room = draw(st.sampled_from([10.0, 25.0, 40.0, 1000.0]))
    return LayerGraph(tuple(made), tuple(edges)), StageLimits(room, held, draw(st.booleans()))


@settings(max_examples=60)
@given(problems())
def test_ideals_find_the_best_of_all_placements(problem):
    graph, limits = problem
    best, found = by_trying_all(graph, limits), place(graph, limits)
    assert (found is None) == (best == inf)
    if found is not None:
        assert checked(graph, limits, found) == pytest.approx(best)
        assert found.exact


@settings(max_examples=30)
@given(problems())
def test_the_integer_program_finds_the_best_of_all_placements(problem):
    pytest.importorskip("scipy")
    graph, limits = problem
    best, found = by_trying_all(graph, limits), place_by_program(graph, limits)
    assert (found is None) == (best == inf)
    if found is not None:
        assert checked(graph, limits, found) == pytest.approx(best)


def test_a_chain_by_hand():
    # 6 + 1 | 4 + 3 | 5: any other cut has a stage of 8 or more.
    found = place(LayerGraph.chain(layers(6, 1, 4, 3, 5)), free(3))
    assert found.stages == ((0, 1), (2, 3), (4,))
    assert found.slowest_us == 7


def test_branches_run_side_by_side_in_a_stage():
    graph = LayerGraph(layers(1, 3, 3, 3, 3, 1), BRANCHES)
    # The empty one, nine with up to two layers of each branch, and all.
    assert len(ideals(graph, 100)) == 1 + 3 * 3 + 1
    # A cut between the branches would be 4 + 10; each half of both branches is 7.
    found = place(graph, free(2))
    assert found.slowest_us == 7
    assert [len(stage) for stage in found.stages] == [3, 3]


def test_memory_moves_layers_to_stages_that_keep_fewer_micro_batches():
    graph = LayerGraph.chain(layers(1, 1, 1, 1, kept_bytes=10.0))
    assert [len(stage) for stage in place(graph, StageLimits(40, (2.0, 1.0))).stages] == [2, 2]
    # Two layers of two micro-batches need 40.
    tight = place(graph, StageLimits(39, (2.0, 1.0)))
    assert [len(stage) for stage in tight.stages] == [1, 3]
    assert place(graph, StageLimits(29, (2.0, 1.0))) is None


def test_a_stage_recomputes_where_it_does_not_fit_otherwise():
    graph = LayerGraph.chain(layers(10, 10, 10, 10, kept_bytes=10.0, again_us=3.0, input_bytes=1.0))
    # With two layers the first stage keeps 2 * 2 * 1 and the 10 of one layer.
    found = place(graph, StageLimits(39, (2.0, 1.0), recompute=True))
    assert [len(stage) for stage in found.stages] == [2, 2]
    assert found.recomputed == (True, False)
    assert found.slowest_us == 26


def test_a_graph_with_many_ideals_is_cut_along_its_order():
    # Twelve layers that need no other have 4096 ideals.
    graph = LayerGraph(layers(*range(1, 13)), ())
    assert ideals(graph, 4095) is None
    assert len(ideals(graph, 4096)) == 4096
    found = place(graph, free(3), most=100)
    assert not found.exact
    # 1 to 7 are 28, 8 to 10 are 27, 11 and 12 are 23.
    assert checked(graph, free(3), found) == 28


def test_without_the_solver_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(placement_program, "import_module", missing)
    with pytest.raises(UsageError, match="needs SciPy") as error:
        place_by_program(LayerGraph.chain(layers(1, 2)), free(2))
    assert "skyline-profiler[solver]" in error.value.hint
