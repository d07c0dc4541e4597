"""Equal forms of terms: every rule keeps the values, and the cheapest form is found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import inf, prod

import pytest

from skyline.whatif.catalogue.models import cheapest_form as solving
from skyline.whatif.catalogue.models.cheapest_form import WITHOUT_SOLVER, cheapest_form
from skyline.whatif.catalogue.models.leaner_terms import Change, may_gain, savings
from skyline.whatif.catalogue.models.product_terms import Block, Op, Place, Term, size_of
from skyline.whatif.catalogue.models.saturation import (
    LIBRARY,
    EqualTerms,
    Node,
    cheapest,
    node_us,
    saturated,
)
from skyline.whatif.constant import Constant


@pytest.fixture
def library():
    """The library, without which there is nothing to ask."""
    return pytest.importorskip(
        LIBRARY, reason="egglog is not installed: pip install 'skyline-profiler[graph]'"
    )


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


def by_program(terms):
    """The least price of all forms by an integer program, as Tensat extracts them: nodes, and an order of classes."""
    optimize = pytest.importorskip("scipy.optimize")
    nodes = [
        (name, node, us)
        for name, each in terms.classes.items()
        for node in each
        if (us := node_us(terms, name, node, price)) < inf
    ]
    names = {name: place for place, name in enumerate(terms.classes)}
    size, most = len(nodes) + len(names), len(names) + 1.0
    rows, low = [], []

    def held(coefficients, least_of_it):
        row = [0.0] * size
        for place, value in coefficients:
            row[place] += value
        rows.append(row)
        low.append(least_of_it)

    def members(name):
        return [(place, 1.0) for place, (of, *_) in enumerate(nodes) if of == name]

    for root in {terms.of_term[one] for one in terms.block.needed}:
        held(members(root), 1.0)
    for place, (name, node, _) in enumerate(nodes):
        for child in set(node.children):
            held([*members(child), (place, -1.0)], 0.0)
            order = [(len(nodes) + names[name], 1.0), (len(nodes) + names[child], -1.0), (place, -most)]
            held(order, 1.0 - most)
    prices = [us for _, _, us in nodes] + [0.0] * len(names)
    solved = optimize.milp(
        prices,
        integrality=[1] * len(nodes) + [0] * len(names),
        bounds=optimize.Bounds(0.0, [1.0] * len(nodes) + [most] * len(names)),
        constraints=optimize.LinearConstraint(rows, low, inf),
        options={"mip_rel_gap": 0.0, "time_limit": 60.0},
    )
    assert solved.status == 0, solved.message
    return solved.fun


@pytest.mark.parametrize("name", BLOCKS)
def test_the_search_finds_what_an_integer_program_finds(library, name) -> None:
    """The search takes no solver and far less time; the program knows the optimum of larger graphs, too."""
    terms = saturated(BLOCKS[name]())
    assert total(terms, cheapest(terms, price)) == pytest.approx(by_program(terms), rel=1e-6)
    assert total(terms, cheapest_form(terms, price).nodes) == pytest.approx(by_program(terms), rel=1e-6)


def read_elsewhere():
    """x + x·A, where other code reads x·A: one operator for both would multiply a second time."""
    made = Written()
    x = made.leaf(40, 6)
    product = made(Op.PRODUCT, x, made.weight(6, 6))
    return made.block(product, made(Op.SUM, x, product))


def repeated():
    """u = x·A, v = u·A, and u + v, v·B and v·C, which are all read."""
    made = Written()
    x, weight = made.leaf(1, 30), made.weight(30, 30)
    first = made(Op.PRODUCT, x, weight)
    second = made(Op.PRODUCT, first, weight)
    ends = [made(Op.PRODUCT, second, made.weight(30, width)) for width in (6, 30)]
    return made.block(second, made(Op.SUM, first, second), *ends)


def test_other_code_that_reads_a_value_is_a_reader(library) -> None:
    terms = saturated(read_elsewhere())
    assert total(terms, cheapest(terms, price)) == pytest.approx(least(terms))


def test_the_program_shares_values_that_the_search_computes_twice(library) -> None:
    pytest.importorskip("scipy")
    terms = saturated(repeated())
    found = cheapest_form(terms, price)
    assert not found.unproven
    assert total(terms, found.nodes) == pytest.approx(by_program(terms), rel=1e-6)
    assert total(terms, cheapest(terms, price)) > 1.2 * total(terms, found.nodes)


def shared_by_three():
    """Three values, which cost 10 each; or 1 each from two values in common, which cost 12 each."""
    x = Term(Op.LEAF, (), (0,), (4, 4))
    scaled = [Term(Op.SCALED, (0,), (number,), (4, 4)) for number in (10, 11, 12)]
    classes = {
        "x": (Node(Op.LEAF, (0,), ()),),
        "s": (Node(Op.SCALED, (2,), ("x",)),),
        "t": (Node(Op.SCALED, (3,), ("x",)),),
        "a": (Node(Op.SCALED, (10,), ("x",)), Node(Op.SUM, (), ("s", "t"))),
        "b": (Node(Op.SCALED, (11,), ("x",)), Node(Op.SUM, (), ("t", "s"))),
        "c": (Node(Op.SCALED, (12,), ("x",)), Node(Op.PRODUCT, (), ("s", "t"))),
    }
    block = Block((x, *scaled), frozenset((1, 2, 3)), (), "float32")
    return EqualTerms(block, classes, ("x", "a", "b", "c"))


def by_hand(op, numbers, children, made):
    if op is Op.SCALED:
        return 12.0 if numbers[0] < 10 else 10.0
    return 1.0


def form_us(terms, nodes):
    return sum(node_us(terms, name, node, by_hand) for name, node in nodes.items())


def test_two_values_that_only_together_are_worth_their_price() -> None:
    pytest.importorskip("scipy")
    terms = shared_by_three()
    assert form_us(terms, cheapest(terms, by_hand)) == 31.0
    found = cheapest_form(terms, by_hand)
    assert form_us(terms, found.nodes) == 28.0
    assert found.unproven == ""
    assert {node.op for name, node in found.nodes.items() if name in "abc"} == {Op.SUM, Op.PRODUCT}


def test_no_value_is_computed_from_itself() -> None:
    """Both values of a circle are cheap from each other, and expensive from elsewhere: one of them is paid for."""
    pytest.importorskip("scipy")
    terms = shared_by_three()
    classes = {
        "x": terms.classes["x"],
        "a": (Node(Op.SCALED, (10,), ("x",)), Node(Op.SWAPPED, (0, 1), ("b",))),
        "b": (Node(Op.SCALED, (11,), ("x",)), Node(Op.SWAPPED, (0, 1), ("a",))),
        "c": terms.classes["c"][:1],
    }
    terms = EqualTerms(terms.block, classes, terms.of_term)
    found = cheapest_form(terms, by_hand)
    assert form_us(terms, found.nodes) == 1 + 10 + 1 + 10
    assert {found.nodes[name].op for name in "ab"} == {Op.SCALED, Op.SWAPPED}


def test_without_the_solver_the_search_answers_and_says_so(monkeypatch) -> None:
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(solving, "import_module", missing)
    terms = shared_by_three()
    found = cheapest_form(terms, by_hand)
    assert found.nodes == cheapest(terms, by_hand)
    assert found.unproven == WITHOUT_SOLVER


def test_a_graph_of_too_many_nodes_is_searched(monkeypatch) -> None:
    monkeypatch.setattr(solving, "_MOST_NODES", Constant.at(5, ""))
    terms = shared_by_three()
    found = cheapest_form(terms, by_hand)
    assert found.nodes == cheapest(terms, by_hand)
    assert found.unproven == "9 nodes, and the program takes 5"


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
