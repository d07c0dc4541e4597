import pytest

from skyline.errors import UsageError
from skyline.plan.strategy import Strategy
from skyline.plan.transformer import transformer_from, transformer_named, transformer_names


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mpt-125m", 125_311_488),
        ("mpt-7b", 6_658_859_008),
        ("mpt-30b", 29_975_214_080),
        ("llama3-8b", 8_030_261_248),
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


def test_descriptions_are_checked():
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
