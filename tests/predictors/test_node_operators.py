import pytest

from skyline_predictors.node_operators import node_work
from skyline_predictors.operator_graph import GraphNode

SIZE = (64, 128)
ELEMENTS = 64 * 128


def node(kind: str, name: str = "x", inputs=(SIZE,), output=SIZE, work=()) -> GraphNode:
    return GraphNode(0, name, kind, 1.0, inputs, output, work)


def moved(shapes) -> list[float]:
    """Bytes for each element of the output, kernel by kernel."""
    return [shape.bytes_moved / ELEMENTS for shape in shapes]


@pytest.mark.parametrize(
    ("kind", "inputs", "forward", "backward"),
    [
        ("VECadd", (SIZE, SIZE), [12], []),
        ("VECaddu", (SIZE,), [8], []),
        ("VECmul", (SIZE, SIZE), [12], [12, 12]),
        ("VECmulu", (SIZE,), [8], [8]),
        ("VECdiv", (SIZE, (1,)), [8], [8]),
        ("VECgelu", (SIZE,), [8], [12]),
        ("VECpowu", (SIZE,), [8], [8, 8, 12]),
        ("VECsoftmax", (SIZE,), [8], [12, 12]),
        ("dropout", (SIZE,), [9], [9]),
        ("contiguous", (SIZE,), [8], []),
        ("getitem", (SIZE,), [], []),
    ],
)
def test_kernels_move_what_pytorch_moves(kind, inputs, forward, backward):
    work = node_work(node(kind, inputs=inputs), training=True)
    assert moved(work.forward) == forward
    assert moved(work.backward) == backward
    assert node_work(node(kind, inputs=inputs), training=False).backward == ()


def test_dropout_takes_longer_where_gradients_are_recorded():
    work = node_work(node("dropout"), training=True, recorded=True)
    assert sum(moved(work.backward)) == 25


@pytest.mark.parametrize(
    ("name", "launches"),
    [("view_3", 0), ("size", 0), ("permute_1", 0), ("masked_fill_1", 1), ("max_1", 1), ("reshape", 1)],
)
def test_calls_without_a_kind_are_told_by_their_names(name, launches):
    assert len(node_work(node("misc", name), training=False).forward) == launches


def test_numbers_launch_nothing():
    assert node_work(node("misc", "add_4", ((1,), (1,)), (1,)), training=False).forward == ()


def test_a_linear_layer_has_two_products_and_a_sum_behind_it():
    def row(phase: str, op: str, **sizes: str) -> dict[str, str]:
        return {"phase": phase, "op": op, "b": "1", "m": "64", "n": "128", "k": "32", "cols": "", **sizes}

    work = (
        row("fw", "linear"),
        row("bw", "linear"),
        row("bw", "linear"),
        row("acc", "add", cols="4096"),
        row("acc", "add", cols="128"),
    )
    found = node_work(node("Linear", work=work), training=True)
    assert [shape.operator for shape in found.forward] == ["aten::addmm"]
    assert [shape.operator for shape in found.backward] == ["aten::mm", "aten::mm", "aten::sum"]
    assert [shape.bytes_moved for shape in found.accumulate] == [12 * 4096, 12 * 128]


@pytest.mark.parametrize(
    ("name", "inputs", "output", "launches"),
    [
        ("truediv~add_7~softmax", (SIZE, (1,)), SIZE, 1),
        ("add_5~view_3~permute", (SIZE, (1,)), SIZE, 1),
        # The sum of two sizes, for a view.
        ("add_8~view_6", (SIZE, (1,)), SIZE, 0),
        ("add_9~view_8~add_10", (SIZE, SIZE, (1,)), SIZE, 1),
        ("size_17~view_11", (SIZE,), SIZE, 0),
        ("getattr_8~to", (SIZE,), SIZE, 0),
        ("getattr_7~finfo~full_1", (SIZE,), (1,), 0),
    ],
)
def test_a_compiled_group_that_only_asks_for_sizes_launches_nothing(name, inputs, output, launches):
    assert len(node_work(node("fused", name, inputs, output), training=False).forward) == launches
