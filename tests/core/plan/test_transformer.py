import msgspec
import pytest

from skyline.errors import UsageError
from skyline.plan.strategy import Precision, Strategy
from skyline.plan.transformer import transformer_from, transformer_named, transformer_names


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mpt-125m", 125_311_488),
        ("mpt-7b", 6_658_859_008),
        ("mpt-30b", 29_975_214_080),
        ("llama3-8b", 8_030_261_248),
        # Without token types and pooler.
        ("bert-large", 334_090_240),
    ],
)
def test_parameters_are_the_published_ones(name, parameters):
    assert transformer_named(name).parameters == parameters


def test_layers_have_all_parameters_and_the_products_of_a_block():
    model = transformer_named("llama3-8b", 2048)
    layers = model.layers(Strategy(micro_batch=2))
    assert layers.parameters == pytest.approx(model.parameters, rel=1e-5)
    products = sum(shape.flops for shape in layers.block.forward if shape.operator == "aten::mm")
    matrices = 4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336
    assert products == 2 * 2 * 2048 * matrices
    backward = sum(shape.flops for shape in layers.block.backward if shape.operator == "aten::mm")
    assert backward == 2 * products


def test_tensor_parallelism_divides_products_and_parameters():
    model = transformer_named("llama3-8b")
    one, four = (model.layers(Strategy(tensor=ways)) for ways in (1, 4))
    flops = [sum(shape.flops for shape in layers.block.forward) for layers in (one, four)]
    assert flops[1] * 4 == flops[0]
    assert four.block.parameters * 4 == one.block.parameters
    assert one.tensor_bytes == 0
    assert four.tensor_bytes == 8192 * 4096 * 2


def test_experts_divide_over_ranks():
    model = transformer_named("mixtral-8x7b")
    assert model.parameters == pytest.approx(46.7e9, rel=0.01)
    layers = model.layers(Strategy(data=8, expert=8))
    assert layers.expert_bytes == 4096 * 2 * 4096 * 2
    assert model.refusal(Strategy(data=8, expert=3))


def test_sizes_that_do_not_divide_are_refused():
    model = transformer_named("llama3-8b")
    assert "key heads" in model.refusal(Strategy(tensor=16))
    assert "heads cannot" in model.refusal(Strategy(tensor=3))
    assert not model.refusal(Strategy(tensor=8))


def test_number_formats_of_activations():
    model = transformer_named("gpt2")
    mixed, half, single = (
        model.layers(Strategy(precision=one)) for one in (Precision.MIXED, Precision.HALF, Precision.SINGLE)
    )
    formats = [{one.dtypes[0] for one in layers.block.forward} for layers in (mixed, half, single)]
    assert formats == [{"bfloat16"}, {"float16"}, {"float32"}]
    assert half.block.saved_bytes == mixed.block.saved_bytes
    assert single.block.saved_bytes == 2 * mixed.block.saved_bytes
    assert sum(one.bytes_moved for one in single.block.backward) == pytest.approx(
        2 * sum(one.bytes_moved for one in mixed.block.backward)
    )


def test_attention_that_is_not_causal_has_twice_the_pairs():
    model = transformer_named("bert-large")
    causal = msgspec.structs.replace(model, causal=True)
    whole, half = (
        next(one.flops for one in each.layers(Strategy()).block.forward if "attention" in one.operator)
        for each in (model, causal)
    )
    assert whole == 2 * half == 2 * 2 * 16 * 512 * 512 * 64


def test_predicted_tokens_alone_have_logits():
    whole = transformer_named("bert-large", 128)
    model = msgspec.structs.replace(whole, predicted=0.25)
    ends = [one.layers(Strategy(micro_batch=4)).last for one in (model, whole)]
    assert ends[0].saved_bytes * 4 == ends[1].saved_bytes
    assert ends[0].forward[0].flops * 4 == ends[1].forward[0].flops == 2 * 4 * 128 * 1024 * 30522
    # The output layer is three quarters of its size less for each token.
    assert whole.flops_per_sample - model.flops_per_sample == 6 * 0.75 * 30522 * 1024 * 128


def test_normalization_and_activation_written_out_move_and_keep_more():
    fused = transformer_named("bert-large", 128)
    plain = msgspec.structs.replace(fused, fused=False)
    blocks = [one.layers(Strategy()).block for one in (fused, plain)]

    def moved(shapes):
        return [one.bytes_moved for one in shapes if one.operator == "aten::mul"]

    whole, inner = 2 * 128 * 1024, 2 * 128 * 4096
    assert moved(blocks[0].forward) == [10 * whole, 2 * inner]
    assert moved(blocks[1].forward) == [34 * whole, 11 * inner]
    assert moved(blocks[1].backward) == [67 * whole, 24 * inner]
    assert blocks[1].saved_bytes - blocks[0].saved_bytes == 4 * whole + 2 * inner
    # A compiler fuses them.
    assert plain.layers(Strategy(compiled=True)).block == fused.layers(Strategy(compiled=True)).block


def test_descriptions_are_checked():
    with pytest.raises(UsageError, match="share of the tokens"):
        transformer_from(
            b'{"name":"x","blocks":2,"width":9,"heads":3,"hidden":40,"vocabulary":100,"sequence":8,"predicted":0}',
            "x.json",
        )
    assert "gpt2" in transformer_names()
    with pytest.raises(UsageError, match="no model"):
        transformer_named("gpt-17")
    with pytest.raises(UsageError, match="does not describe"):
        transformer_from(b'{"name": "x", "blocks": "many"}', "x.json")
    with pytest.raises(UsageError, match="heads must divide"):
        transformer_from(
            b'{"name":"x","blocks":2,"width":10,"heads":3,"hidden":40,"vocabulary":100,"sequence":8}',
            "x.json",
        )
