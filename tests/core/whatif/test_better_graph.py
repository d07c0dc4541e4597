"""The products of scripts in their cheapest form: read from the code, with the recorded times, and told with lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.shape_session import GpuTarget, trace_shapes
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
from skyline.whatif.catalogue.models import better_graph, cheapest_form
from skyline.whatif.catalogue.models.better_graph import WHATIF
from skyline.whatif.catalogue.models.leaner_terms import may_gain
from skyline.whatif.catalogue.models.product_terms import Op
from skyline.whatif.catalogue.models.saturation import LIBRARY
from skyline.whatif.catalogue.models.written_terms import blocks
from skyline.whatif.constant import Constant
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.question import Choice

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD
MODEL = "/project/model.py"
GPU = GpuTarget("Imaginary 24", 24 * 2**30, (8, 6), 80)


@pytest.fixture
def library():
    """The library, without which there is nothing to ask."""
    return pytest.importorskip(
        LIBRARY, reason="egglog is not installed: pip install 'skyline-profiler[graph]'"
    )


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


def merged_share():
    """By hand: the time of one layer of three times the width over that of three layers, both passes of each.

    Three products of 0.4 ms belong to a layer. It adds to the gradient of its input: three times its bytes at 10 GB/s.
    The columns of the wide layer take half a call each, and twice their bytes in the backward pass.
    """
    bytes_us = 4 * ROWS * WIDTH / 10e3
    adding_us = CALL_US + 3 * bytes_us
    before_us = 3 * (3 * 400.0 + adding_us)
    wide_us = 3 * (3 * (400.0 - CALL_US) + CALL_US)
    return (wide_us + adding_us + 3 * (CALL_US / 2 + 2 * bytes_us)) / before_us


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
    # One parameter for all weights takes next to nothing.
    assert ratios == pytest.approx(merged_share(), rel=1e-4)
    assert changed.below_ms > 0
    assert changed.above_ms > 0
    assert changed.provenance.value == "modelled"


def test_the_answer_has_a_range_around_its_gain(library, script) -> None:
    found = answer(baseline(script()), [Choice("better_graph")])
    assert found.reason is None
    assert found.speedup > 1
    assert found.semantics == "numerics"


def test_an_answer_of_the_search_says_so(library, script, monkeypatch) -> None:
    monkeypatch.setattr(cheapest_form, "_MOST_NODES", Constant.at(5, ""))
    start = baseline(script())
    changed = WHATIF.transform(Scenario.of(start, Grain.OPERATORS), "", start)
    assert changed.assumptions[-1].startswith("Found by a search, so that a cheaper form may exist (")
    assert changed.assumptions[-1].endswith("nodes, and the program takes 5)")


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
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Attention(64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(500):
    loss = model(torch.randn(4, 8, 64, device=device)).mean()
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
@pytest.mark.parametrize("traced", [False, True])
def test_the_products_of_a_real_script_are_read(tmp_path, resident, traced) -> None:
    """Measured on this machine, and traced for a GPU that is not there."""
    script = tmp_path / "train.py"
    script.write_text(WITH_PRODUCTS + TRAINING, encoding="utf-8")
    request = CaptureRequest(script, settle_s=0.1, batch_points=0, trials=False)
    if traced:
        made = trace_shapes(request, GPU, progress=lambda _: None, starter=resident.start)
    else:
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
