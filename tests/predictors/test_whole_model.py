from skyline_predictors.operator_graph import GraphNode
from skyline_predictors.whole_model import gradient_sums, operand_copies, run_inside_the_next

FLAT, HEADS, SCORES = (2, 64, 128), (2, 4, 64, 32), (2, 4, 64, 64)
TURNED = (2, 4, 32, 64)


def nodes(*rows) -> list[GraphNode]:
    return [
        GraphNode(at, name, kind, 1.0, inputs, output, ())
        for at, (name, kind, inputs, output) in enumerate(rows)
    ]


def moved(kernels) -> list[int]:
    return [shape.bytes_moved for shape in kernels]


def test_operands_out_of_a_permutation_are_copied_and_others_are_not():
    found = operand_copies(
        nodes(
            ("permute", "misc", (HEADS,), HEADS),
            ("transpose_1", "misc", (HEADS,), TURNED),
            ("matmul", "BMM", (HEADS, TURNED), SCORES),
            ("softmax", "VECsoftmax", (SCORES,), SCORES),
            ("contiguous", "contiguous", (HEADS,), HEADS),
            ("matmul_1", "BMM", (SCORES, HEADS), HEADS),
        )
    )
    size = 8 * 2 * 4 * 64 * 32
    assert moved(found[2]) == [size, size]
    assert found[5] == ()


def test_products_of_three_dimensions_take_their_operands_as_they_are():
    flat = (8, 64, 32)
    found = operand_copies(
        nodes(("transpose", "misc", (flat,), flat), ("bmm", "BMM", (flat, flat), (8, 64, 64)))
    )
    assert found[1] == ()


def test_a_branch_that_comes_back_adds_up_gradients():
    found = gradient_sums(
        nodes(
            ("add_7", "VECadd", (FLAT, FLAT), FLAT),
            ("add_8", "VECadd", (FLAT, (128,)), FLAT),
        )
    )
    assert moved(found[0]) == [12 * 2 * 64 * 128]
    assert 1 not in found


def test_layers_that_share_an_input_add_up_its_gradients():
    linear = ("Linear", (FLAT,), FLAT)
    found = gradient_sums(
        nodes(
            ("norm", "VECln", (FLAT,), FLAT),
            ("query", *linear),
            ("key", *linear),
            ("view", "misc", (FLAT,), HEADS),
            ("value", *linear),
            ("view_3", "misc", (HEADS,), FLAT),
            ("dense", *linear),
        )
    )
    assert sorted(found) == [2, 4]


def test_what_was_split_is_put_together_again():
    whole = (2, 64, 384)
    found = gradient_sums(nodes(("split", "misc", (whole,), (1,))))
    assert moved(found[0]) == [8 * 2 * 64 * 384]


def test_a_compiled_mask_runs_inside_the_softmax_after_it():
    scores, mask, values = (2, 4, 64, 64), (1, 1, 64, 64), (2, 4, 64, 16)

    def compiled(number, kind, name, inputs, output):
        return GraphNode(number, name, kind, 1.0, inputs, output, ())

    nodes = [
        compiled(0, "fused", "truediv", (scores, (1,)), scores),
        compiled(1, "fused", "getattr_8~to", (scores,), scores),
        compiled(2, "where", "where", (mask, (1,), scores), scores),
        compiled(3, "fused", "softmax~dropout", (scores,), scores),
        compiled(4, "contiguous", "contiguous", (values,), values),
        compiled(5, "fused", "add_9~add_10", (values, values), values),
    ]
    assert run_inside_the_next(nodes) == {0, 2}
    # As written, each is a kernel of its own.
    assert run_inside_the_next([nodes[2], nodes[4]]) == frozenset()
