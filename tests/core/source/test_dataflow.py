"""Values of functions: which are made from which, and which of them something else reads."""

from __future__ import annotations

import ast
import textwrap

import pytest

from skyline.source.dataflow import Made, stretches
from skyline.source.forms import function_at


def read(code: str):
    tree = ast.parse("def forward(self, x, y):\n" + textwrap.indent(textwrap.dedent(code), "    "))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    return stretches(function)


def told(stretch) -> list[str]:
    """Each value that is followed: how it is made, its name, and its arguments."""
    return [
        f"{one.made.value} {one.name}({', '.join(map(str, one.arguments))})"
        for one in stretch.values
        if one.made not in (Made.GIVEN, Made.ATTRIBUTE)
    ]


def test_three_calls_of_one_input_are_three_values_of_it() -> None:
    [body] = read("q, k = self.q(x), self.k(x)\nreturn q, k, self.heads[0].v(x)")
    assert told(body) == ["called q(0)", "called k(0)", "called heads.0.v(0)"]
    assert {1, 2, 3} <= body.needed
    assert [one.line for one in body.values[1:4]] == [2, 2, 3]


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("x @ y", "product (0, 1)"),
        ("torch.matmul(x, y)", "product (0, 1)"),
        ("x.bmm(y)", "product (0, 1)"),
        ("F.linear(x, self.w, self.b)", "linear (0, 1, 2)"),
        ("torch.add(x, y)", "sum (0, 1)"),
        ("x.T", "swapped (0)"),
        ("x.transpose(2, 1)", "swapped (0)"),
        ("torch.transpose(x, -1, -2)", "swapped (0)"),
        ("x * 0.5", "times 0.5(0)"),
        ("x / math.sqrt(8)", "times 1 / (math.sqrt(8))(0)"),
        ("(1 / 8) * x", "times 1 / 8(0)"),
    ],
)
def test_spellings(written: str, made: str) -> None:
    [body] = read(f"return {written}")
    assert told(body) == [made]


def test_methods_of_results_read_them() -> None:
    [body] = read("return self.q(x).view(2, 3, -1).transpose(1, 2), (x @ y)[0].sum().item()")
    assert [one.made for one in body.values if one.made in (Made.CALLED, Made.PRODUCT)] == [
        Made.CALLED,
        Made.PRODUCT,
    ]
    assert {
        at for at, one in enumerate(body.values) if one.made in (Made.CALLED, Made.PRODUCT)
    } <= body.needed


def test_dimensions_are_known_without_their_order() -> None:
    [body] = read("return x.transpose(2, 1)")
    assert [one.dimensions for one in body.values if one.made is Made.SWAPPED] == [(1, 2)]


@pytest.mark.parametrize(
    "between", ["x += 1", "x.add_(1)", "F.relu(x, inplace=True)", "x[0] = 1", "torch.add(x, y, out=x)"]
)
def test_behind_a_write_in_place_a_name_is_another_value(between: str) -> None:
    [body] = read(f"q = self.q(x)\n{between}\nreturn q, self.k(x)")
    [q, k] = [one for one in body.values if one.made is Made.CALLED]
    assert q.arguments != k.arguments


def test_a_branch_is_a_stretch_of_its_own_and_reads_values_from_outside() -> None:
    outer, inner = read("h = self.a(x)\nif y is None:\n    h = self.b(h)\nreturn self.c(h)")
    assert [one.name for one in outer.values if one.made is Made.CALLED] == ["a", "c"]
    assert told(inner) == ["called b(0)"]
    assert 1 in outer.needed
    a, c = (one for one in outer.values if one.made is Made.CALLED)
    assert c.arguments != (outer.values.index(a),)


def test_the_body_of_a_loop_does_not_know_what_it_changes() -> None:
    outer, inner = read("h = self.a(x)\nfor one in y:\n    h = self.b(h)\nreturn h")
    assert 1 in outer.needed
    assert told(inner) == ["called b(0)"]
    assert inner.values[0].made is Made.GIVEN


def test_what_is_not_followed_needs_what_it_reads() -> None:
    [body] = read("h = self.a(x)\ng = [one for one in h]\nreturn self.b(h)")
    assert 1 in body.needed
    assert told(body) == ["called a(0)", "called b(1)"]


def test_a_function_is_found_by_its_line_or_that_of_its_decorator() -> None:
    tree = ast.parse("class Net:\n    @decorated\n    def forward(self, x):\n        return x\n")
    for line in (2, 3):
        found = function_at(tree, line)
        assert found is not None
        assert found.name == "forward"
    assert function_at(tree, 4) is None
