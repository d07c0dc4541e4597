"""Traffic of layers in sub-batches, compared with values computed by hand."""

from __future__ import annotations

from types import SimpleNamespace

from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace


def test_each_layer_moves_its_tensors_and_a_buffer_keeps_those_between_layers() -> None:
    from serialized_traffic import Layer, moved

    # A convolution of 8 bytes to 8, a normalization, and a rectifier of 8: the output of the second one is not kept.
    first = Layer(8, 0, 8, 1, keeps_input=True)
    norm = Layer(8, 0, 8, 0, keeps_input=True)
    last = Layer(8, 0, 8, 0, keeps_output=True)
    none = moved((first, norm, last), 4, 0)
    assert none.sizes == ()
    # Forward 17, 16 and 16; backward each output, what is kept, and each input, and the weight twice.
    assert none.bytes == none.now_bytes == (17 + 26) + (16 + 24) + (16 + 24)
    held = moved((first, norm, last), 4, 9)
    assert held.sizes == (2,)
    # Tensors kept by the convolution and the rectifier: written and read. The weight counts for two parts. The group's
    # input counts three times, its output has three copies, and one gradient of three bytes is added.
    assert held.bytes == (2 * 8 + 5) + 0 + 2 * 8 + 3 * 8 + 3 * 8 + 3
    assert held.less == 1 - held.bytes / none.now_bytes
    whole = moved((first, norm, last), 4, 1)
    assert whole.sizes == (), "the weight leaves no room"


def test_layers_follow_from_kernels_and_a_branch_waits_in_memory() -> None:
    from serialized_traffic import layers_of

    def call(operator: str, *inputs: tuple[int, ...]) -> OperatorShape:
        return OperatorShape(operator, inputs, ("bfloat16",) * len(inputs), ((2, 8),), ("bfloat16",))

    shapes = (
        call("aten::addmm", (8,), (2, 4), (4, 8)),
        call("aten::relu", (2, 8)),
        call("aten::add", (2, 8), (2, 8)),
        call("aten::addmm", (8,), (2, 6), (6, 8)),
    )
    records = tuple(
        Record("kernel", RecordKind.KERNEL, phase, "stream", iteration, 0.0, 1.0, shape=shape)
        for iteration in (0, 1)
        for phase, kernels in ((Phase.FORWARD, range(4)), (Phase.BACKWARD, range(2)))
        for shape in kernels
    )
    marks = (IterationMark(0, 0.0, 1.0), IterationMark(1, 1.0, 2.0))
    trace = Trace(marks, (), (), records, shapes=shapes)
    found = layers_of(SimpleNamespace(trace=trace, batch_size=2))  # type: ignore[arg-type]
    assert [(one.input_bytes, one.branch_bytes, one.output_bytes, one.weight_bytes) for one in found] == [
        (16, 0, 32, 80),
        (32, 0, 32, 0),
        (32, 32, 32, 0),
        (0, 24, 32, 112),
    ]
    assert [one.keeps_input for one in found] == [True, False, False, True]
    assert [one.keeps_output for one in found] == [False, True, False, False]
    assert found[2].adds


def test_the_law_gives_the_most_popular_rows_their_share() -> None:
    from leaner_papers import zipf_share

    assert zipf_share(1, 2, exponent=1.0) == 2 / 3
    assert zipf_share(2, 2) == 1.0
