"""Equal forms of a model's products: every rule keeps the values, and the cheapest form is found and told."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import inf, prod

import pytest

from skyline.analysis.estimate import answer
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.trace.facts import CallFact, ModuleFact
from skyline.trace.profile import SourceFile
from skyline.trace.record import (
    BareTimes,
    CodeLine,
    IterationMark,
    OperatorShape,
    Phase,
    Record,
    RecordKind,
    Trace,
)
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models import better_graph
from skyline.whatif.catalogue.models.better_graph import WHATIF
from skyline.whatif.catalogue.models.leaner_terms import Change, may_gain, savings
from skyline.whatif.catalogue.models.product_terms import Block, Op, Place, Term, size_of
from skyline.whatif.catalogue.models.saturation import LIBRARY, cheapest, node_us, saturated
from skyline.whatif.catalogue.models.written_terms import blocks
from skyline.whatif.question import Choice

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD
MODEL = "/project/model.py"


@pytest.fixture
def library():
    """The library, without which there is nothing to ask."""
    return pytest.importorskip(
        LIBRARY, reason="egglog is not installed: pip install 'skyline-profiler[graph]'"
    )


# Terms by hand.


class Written:
    """A block in the making."""

    def __init__(self):
        self.terms = []

    def leaf(self, *size, parameter=False):
        self.terms.append(Term(Op.LEAF, (), (len(self.terms),), size, parameter=parameter))
        return len(self.terms) - 1

    def weight(self, *size):
        return self.leaf(*size, parameter=True)

    def __call__(self, op, *children, numbers=()):
        size = size_of(op, numbers, [self.terms[one].size for one in children])
        assert size is not None
        self.terms.append(Term(op, children, numbers, size, Place("", len(self.terms), "", op)))
        return len(self.terms) - 1

    def block(self, *needed, evaluating=False):
        return Block(tuple(self.terms), frozenset(needed), ("0.5",), "float32", evaluating)


def one_input(count=3, rows=32):
    made = Written()
    x = made.leaf(4, rows, 8)
    return made.block(*(made(Op.AFFINE, made.weight(6), x, made.weight(8, 6)) for _ in range(count)))


def without_bias():
    made = Written()
    x = made.leaf(5, 8)
    return made.block(*(made(Op.PRODUCT, x, made.weight(8, width)) for width in (3, 4, 5)))


def adapter():
    """x·A + 0.5·(x·B)·C + bias."""
    made = Written()
    x = made.leaf(64, 32)
    low = made(Op.PRODUCT, made(Op.PRODUCT, x, made.weight(32, 2)), made.weight(2, 32))
    whole = made(Op.SUM, made(Op.PRODUCT, x, made.weight(32, 32)), made(Op.SCALED, low, numbers=(0,)))
    return made.block(made(Op.SUM, whole, made.weight(32)))


def two_layers(inputs=6, between=200, outputs=4):
    made = Written()
    first = made(Op.AFFINE, made.weight(between), made.leaf(3, 50, inputs), made.weight(inputs, between))
    return made.block(made(Op.AFFINE, made.weight(outputs), first, made.weight(between, outputs)))


def common_factor():
    made = Written()
    x, y, a = made.leaf(9, 7), made.leaf(9, 7), made.weight(7, 5)
    one = made(Op.SUM, made(Op.PRODUCT, x, a), made(Op.PRODUCT, y, a))
    two = made(
        Op.SUM, made(Op.AFFINE, made.weight(5), x, a), made(Op.AFFINE, made.weight(5), x, made.weight(7, 5))
    )
    three = made(Op.SUM, made(Op.AFFINE, made.weight(5), y, a), made(Op.PRODUCT, y, made.weight(7, 5)))
    return made.block(one, two, three)


def attention_in_order():
    """(q·0.5 · kᵀ) · v, which without a softmax is q · (kᵀ · v)."""
    made = Written()
    q, k, v = (made.leaf(2, 64, 4) for _ in range(3))
    scores = made(Op.PRODUCT, made(Op.SCALED, q, numbers=(0,)), made(Op.SWAPPED, k, numbers=(1, 2)))
    return made.block(made(Op.PRODUCT, scores, v))


def swapped_back():
    made = Written()
    x = made(Op.SWAPPED, made(Op.SWAPPED, made.leaf(2, 3, 4), numbers=(0, 1)), numbers=(0, 1))
    return made.block(made(Op.SCALED, made(Op.AFFINE, made.weight(5), x, made.weight(4, 5)), numbers=(0,)))


def added_matrix():
    made = Written()
    product = made(Op.PRODUCT, made.leaf(6, 7), made.leaf(7, 5))
    return made.block(made(Op.SUM, made.leaf(6, 5), product))


BLOCKS = {
    one.__name__: one
    for one in (
        one_input, without_bias, adapter, two_layers, common_factor, attention_in_order, swapped_back, added_matrix,
    )
}  # fmt: skip


def numbers_of(torch, op, numbers, children):
    """A term computed by PyTorch."""
    match op:
        case Op.PRODUCT:
            return children[0] @ children[1]
        case Op.AFFINE:
            return children[0] + children[1] @ children[2]
        case Op.SUM:
            return children[0] + children[1]
        case Op.SCALED:
            return 0.5 * children[0]
        case Op.SWAPPED:
            return children[0].transpose(*numbers)
        case Op.JOINED:
            return torch.cat(children, dim=-1)
        case Op.COLUMNS:
            return children[0].narrow(-1, *numbers)
        case _:
            raise AssertionError(op)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_rule_keeps_the_values(library, name) -> None:
    """All nodes of a class, computed from random numbers, are one value."""
    torch = pytest.importorskip("torch")
    terms = saturated(BLOCKS[name]())
    random = torch.Generator().manual_seed(0)
    values = {
        terms.of_term[index]: torch.randn(*term.size, generator=random, dtype=torch.float64)
        for index, term in enumerate(terms.block.terms)
        if term.op is Op.LEAF
    }
    waiting = [
        (each, node) for each, nodes in terms.classes.items() for node in nodes if node.op is not Op.LEAF
    ]
    compared = 0
    while waiting:
        ready = [one for one in waiting if all(child in values for child in one[1].children)]
        assert ready
        for each, node in ready:
            found = numbers_of(torch, node.op, node.numbers, [values[child] for child in node.children])
            assert tuple(found.shape) == terms.traits[each].size
            compared += each in values
            torch.testing.assert_close(found, values.setdefault(each, found))
        waiting = [one for one in waiting if one not in ready]
    assert compared > 0
    assert terms.complete


def test_a_normalization_folded_into_a_convolution_gives_the_same_values(library) -> None:
    torch = pytest.importorskip("torch")
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    made = Written()
    image = made.leaf(1)
    convolved = made(Op.CONVOLVED, image, numbers=(1,))
    block = made.block(made(Op.NORMED, convolved, numbers=(2,)), evaluating=True)
    form = cheapest(saturated(block), lambda op, *_: 0.1 if op is Op.LEAF else 1.0)
    assert [node.op for node in form.values()] == [Op.FOLDED, Op.LEAF]
    torch.manual_seed(0)
    convolution, norm = torch.nn.Conv2d(3, 4, 3).double().eval(), torch.nn.BatchNorm2d(4).double().eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(fuse_conv_bn_eval(convolution, norm)(x), norm(convolution(x)))


# Prices by hand.


def price(op, numbers, children, made):
    """A product its arithmetic and a call, all else a call."""
    if op in (Op.LEAF, Op.JOINED):
        return 0.01
    if op in (Op.PRODUCT, Op.AFFINE):
        return 100 + prod(made.size) * children[-1].size[-2]
    return 10.0


PRICES = dict.fromkeys(("value", "low", "high"), price)


def total(terms, form):
    """The price of a form, by class its node."""
    return sum(node_us(terms, name, node, price) for name, node in form.items())


def least(terms):
    """The least price of all forms, by trying every choice of nodes."""
    names = list(terms.classes)
    best = inf
    for chosen in itertools.product(*(terms.classes[name] for name in names)):
        form = dict(zip(names, chosen, strict=True))
        used, waiting = {}, [(terms.of_term[one], ()) for one in terms.block.needed]
        cyclic = False
        while waiting and not cyclic:
            name, above = waiting.pop()
            cyclic = name in above
            used[name] = form[name]
            waiting += [(child, (*above, name)) for child in form[name].children]
        best = min(best, inf if cyclic else total(terms, used))
    return best


@pytest.mark.parametrize("name", ["without_bias", "two_layers", "attention_in_order", "added_matrix"])
def test_the_cheapest_of_all_forms_is_found(library, name) -> None:
    made = BLOCKS[name]()
    if name == "without_bias":
        made = replace(made, terms=made.terms[:5], needed=frozenset((2, 4)))
    terms = saturated(made)
    assert prod(map(len, terms.classes.values())) < 200_000
    assert total(terms, cheapest(terms, price)) == pytest.approx(least(terms))


def test_eight_layers_of_one_input_become_one_though_each_alone_is_cheaper_by_itself(library) -> None:
    [found] = savings(saturated(one_input(8, rows=1)), PRICES)
    assert found.change is Change.MERGED
    assert found.widest == (8, 48)
    assert len(found.gone) == 8


def test_the_search_ends_where_there_are_too_many_forms(library) -> None:
    terms = saturated(one_input(14, rows=1))
    assert not terms.complete
    assert sum(map(len, terms.classes.values())) < 50_000
    found = savings(terms, PRICES)
    assert found
    assert all(one.change is Change.MERGED for one in found)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("without_bias", Change.MERGED),
        ("adapter", Change.WEIGHTS_FIRST),
        ("two_layers", Change.WEIGHTS_FIRST),
        ("attention_in_order", Change.ORDER),
        ("swapped_back", Change.SWAPPED_BACK),
        ("added_matrix", Change.WITH_SUM),
    ],
)
def test_the_kind_of_change(library, name, change) -> None:
    block = BLOCKS[name]()
    assert may_gain(block)
    assert change in {one.change for one in savings(saturated(block), PRICES)}


def test_a_value_that_something_else_reads_stays(library) -> None:
    """Both layers as one are less arithmetic than both, and more than the second alone."""
    block = two_layers(8, 6, 8)
    assert savings(saturated(block), PRICES)
    assert savings(saturated(replace(block, needed=block.needed | {3})), PRICES) == ()


# A script.

SOURCE = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)

    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        v = self.v(x)
        return torch.softmax(q * k, -1) * v
"""
APART = SOURCE.replace("self.k(x)", "self.k(torch.sin(x))").replace("self.v(x)", "self.v(torch.cos(x))")
WIDTH, ROWS, CALLED = 64, 256, ("q", "k", "v")
PATHS = ("Net", "Net.attention", *(f"Net.attention.{one}" for one in CALLED))


def module(path, name, **options):
    return ModuleFact(path, name, name == "Linear", WIDTH * WIDTH if options else 0, bool(options), options)


def recorded():
    """Each iteration: three layers of 0.4 ms forward and 0.8 ms backward, a softmax of 0.3 ms, an update of 0.5 ms."""
    size = (ROWS, WIDTH)
    flops = 2 * ROWS * WIDTH * WIDTH
    shapes = (
        OperatorShape("aten::linear", (size, (WIDTH, WIDTH), (WIDTH,)), ("float32",) * 3, flops=flops),
        OperatorShape("AddmmBackward0", (size,), ("float32",), flops=2 * flops),
        OperatorShape("aten::softmax", (size,), ("float32",)),
    )
    lines = tuple(CodeLine(MODEL, line, "Attention.forward") for line in (13, 14, 15, 16))
    work = [("aten::linear", FORWARD, 400.0, 2 + place, place, 0) for place in range(3)]
    work += [("aten::softmax", FORWARD, 300.0, 1, 3, 2)]
    work += [("AddmmBackward0", BACKWARD, 800.0, 2 + place, place, 1) for place in range(3)]
    work += [("aten::add_", Phase.OPTIMIZER, 500.0, -1, -1, -1)]
    records, marks, clock = [], [], 0.0
    for iteration in range(3):
        begin = clock
        for name, phase, took, path, line, shape in work:
            place = {"module": path, "line": line, "shape": shape}
            records.append(Record(name, RecordKind.OPERATOR, phase, "main", iteration, clock, took, **place))
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    return Trace(tuple(marks), lines, PATHS, tuple(records), shapes=shapes)


@pytest.fixture
def script(profile):
    """A profile of a model with this source."""

    def made(source=SOURCE):
        text = SourceFile(MODEL, "", source)
        attention = replace(module(PATHS[1], "Attention"), class_line=CodeLine(MODEL, 12))
        layers = [
            module(path, "Linear", in_features=WIDTH, out_features=WIDTH, bias=True) for path in PATHS[2:]
        ]
        return replace(
            profile,
            trace=recorded(),
            times=BareTimes((4.4,) * 9, (0.0,) * 9, (2.4,) * 9, (0.5,) * 9),
            modules=(module(PATHS[0], "Net"), attention, *layers),
            sources=(text,),
            loaders=(),
            trials=(),
            calls=(),
        )

    return made


def test_three_layers_of_one_input_are_proposed_as_one(library, script) -> None:
    start = baseline(script())
    assert WHATIF.detect(start).applicable
    before = Scenario.of(start, Grain.OPERATORS)
    changed = WHATIF.transform(before, "", start)
    [told] = changed.assumptions
    assert told.startswith(
        "model.py:13-15, Net.attention: 3 linear layers of one input (q, k, v) as one with a weight of 64 x 192; saves "
    )
    assert told.endswith("torch.compile does this for inference with frozen weights only")
    shorter = changed.graph.durations < before.graph.durations
    names = {before.graph.tasks[index].name for index in range(len(before.graph)) if shorter[index]}
    assert names == {"aten::linear", "AddmmBackward0"}
    ratios = (changed.graph.durations / before.graph.durations)[shorter]
    assert ratios.min() == pytest.approx(ratios.max())
    assert changed.below_ms > 0
    assert changed.above_ms > 0
    assert changed.provenance.value == "modelled"


def test_the_answer_has_a_range_around_its_gain(library, script) -> None:
    found = answer(baseline(script()), [Choice("better_graph")])
    assert found.reason is None
    assert found.speedup > 1
    assert found.semantics == "numerics"


def test_layers_of_different_inputs_have_no_other_form(script) -> None:
    found = WHATIF.detect(baseline(script(APART)))
    assert not found.applicable
    assert found.reason == "nothing is found: 3 products in the code, none with another form"


def test_code_that_is_not_there_has_no_products(script) -> None:
    found = WHATIF.detect(baseline(replace(script(), sources=())))
    assert found.reason.startswith("nothing is found: the code of the model has no products")


def test_without_the_library_it_says_how_to_get_it(script, monkeypatch) -> None:
    monkeypatch.setattr(better_graph, "is_installed", lambda: False)
    found = WHATIF.detect(baseline(script()))
    assert not found.applicable
    assert "pip install 'skyline-profiler[graph]'" in found.reason


def test_modules_with_equal_terms_are_one_block(script) -> None:
    one = script()
    twin = tuple(replace(each, path=each.path.replace("attention", "second")) for each in one.modules[1:])
    paths = one.trace.modules
    more = tuple(path.replace("attention", "second") for path in paths[1:])
    again = tuple(
        replace(record, module=record.module + len(more))
        for record in one.trace.records
        if record.module >= 1
    )
    trace = replace(one.trace, modules=(*paths, *more), records=(*one.trace.records, *again))
    [block] = blocks(replace(one, modules=(*one.modules, *twin), trace=trace))
    assert block.paths == ("Net.attention", "Net.second")


SPELLED = SOURCE.replace(
    "return torch.softmax(q * k, -1) * v", "return torch.softmax(x @ self.a + x @ self.b, -1).T.T"
)


def test_products_that_are_written_out_are_read_with_their_recorded_sizes(script) -> None:
    one = script(SPELLED)
    size, weight = (ROWS, WIDTH), (WIDTH, 32)
    shapes = (
        *one.trace.shapes,
        OperatorShape("aten::matmul", (size, weight), ("float32",) * 2),
        OperatorShape("aten::add", ((ROWS, 32), (ROWS, 32)), ("float32",) * 2),
    )
    first = one.trace.records[3]
    added = [replace(first, name=shapes[shape].operator, shape=shape) for shape in (3, 3, 4)]
    trace = replace(one.trace, shapes=shapes, records=(*one.trace.records, *added))
    [block] = blocks(replace(one, trace=trace))
    ops = [term.op for term in block.terms if term.op is not Op.LEAF]
    assert ops == [Op.AFFINE] * 3 + [Op.PRODUCT] * 2 + [Op.SUM]
    assert block.terms[-1].size == (ROWS, 32)
    assert may_gain(block)


FOLDING = """\
class Net(nn.Module):
    def forward(self, x):
        return self.norm(self.conv(x))
"""


def test_a_normalization_is_folded_in_evaluations_alone(library, script) -> None:
    one = script(FOLDING)
    lines = (CodeLine(MODEL, 3, "Net.forward"),)
    modules = (
        replace(module("Net", "Net"), class_line=CodeLine(MODEL, 2)),
        ModuleFact("Net.conv", "Conv2d", True, 10, True, {}),
        ModuleFact("Net.norm", "BatchNorm2d", True, 10, True, {}),
    )
    shapes = (OperatorShape("aten::conv2d", ((8, 3, 32, 32),), ("float32",)),)

    def record(name, phase, place, start, took):
        return Record(name, RecordKind.OPERATOR, phase, "main", 0, start, took, module=place, line=0, shape=0)

    for phase, gains in ((Phase.OTHER, True), (FORWARD, False)):
        records = (
            record("aten::conv2d", phase, 1, 0.0, 3000.0),
            record("aten::batch_norm", phase, 2, 3000.0, 1000.0),
        )
        trace = Trace(
            (IterationMark(0, 0.0, 4000.0),), lines, ("Net", "Net.conv", "Net.norm"), records, shapes=shapes
        )
        made = replace(
            one,
            trace=trace,
            modules=modules,
            times=BareTimes((4.0,) * 9, (0.0,) * 9, (0.0,) * 9, (0.0,) * 9),
            calls=(CallFact("eval forward", 1.0, None, {"training": False}),),
        )
        start = baseline(made)
        assert WHATIF.detect(start).applicable is gains
        if gains:
            before = Scenario.of(start, Grain.OPERATORS)
            changed = WHATIF.transform(before, "", start)
            assert start.step_ms(changed.graph) == pytest.approx(0.75 * start.step_ms(before.graph))
            assert "folded into the weights" in changed.assumptions[0]


TRAINING = """
model = Attention(64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(500):
    loss = model(torch.randn(4, 8, 64)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WITH_PRODUCTS = SOURCE.replace(
    "        self.v = nn.Linear(width, width)\n",
    "        self.v = nn.Linear(width, width)\n"
    "        self.a = nn.Parameter(torch.randn(width, 8))\n"
    "        self.b = nn.Parameter(torch.randn(width, 8))\n",
).replace("return torch.softmax(q * k, -1) * v", "h = q * k * v\n        return h @ self.a + h @ self.b")


@pytest.mark.capture
@pytest.mark.usefixtures("brief_start")
@pytest.mark.parametrize("gpu", ["", "A100-80GB"])
def test_the_products_of_a_real_script_are_read(tmp_path, resident, gpu) -> None:
    script = tmp_path / "train.py"
    script.write_text(WITH_PRODUCTS + TRAINING, encoding="utf-8")
    request = CaptureRequest(script, settle_s=0.1, batch_points=0, trials=False, gpu=gpu)
    made = capture(request, progress=lambda _: None, starter=resident.start)
    [block] = blocks(made)
    assert block.paths == ("Attention",)
    operations = [term for term in block.terms if term.op is not Op.LEAF]
    assert [term.op for term in operations] == [Op.AFFINE] * 3 + [Op.PRODUCT] * 2 + [Op.SUM]
    assert [term.place.line for term in operations] == [15, 16, 17, 19, 19, 19]
    assert len({term.children[1] for term in operations[:3]}) == 1
    assert {term.size[-1] for term in operations[3:]} == {8}
    assert all(term.trained for term in block.terms)
    assert may_gain(block)
