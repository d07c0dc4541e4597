"""One argument, or one item of a mapping, is taken out with its comma: the inverse of what adds it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import add_keyword, keyword_of
from skyline.rewrite.element import without_item, without_keyword
from skyline.source.program import Module
from skyline.source.text import SourceText


def call_of(text: str) -> tuple[Module, ast.Call]:
    module = Module.of(SourceText.of("x.py", text))
    call = next(node for node in module.nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "f")
    return module, call


def without(text: str, name: str = "a") -> str:
    module, call = call_of(text)
    keyword = keyword_of(call, name)
    assert keyword is not None
    made = module.source.apply(without_keyword(module, keyword)).text
    kept = [
        *map(ast.unparse, call.args),
        *(ast.unparse(each) for each in call.keywords if each is not keyword),
    ]
    again = call_of(made)[1]
    assert [*map(ast.unparse, again.args), *map(ast.unparse, again.keywords)] == kept
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a=1)", "f()"),
        ("f(a=1,)", "f()"),
        ("f(x, a=1)", "f(x)"),
        ("f(x, a=1,)", "f(x,)"),
        ("f(a=1, b=2)", "f(b=2)"),
        ("f(x, a=1, b=2)", "f(x, b=2)"),
        ("f(a=1, **k)", "f(**k)"),
        ("f(x,a=1,b=2)", "f(x,b=2)"),
        ("f(x,a=1, **k)", "f(x,**k)"),
        ("f(x,  a=1, **k)", "f(x,  **k)"),
        ("f(x, a=1,\n  **k)", "f(x,\n  **k)"),
        ("f(x, a=(1), b=2)", "f(x, b=2)"),
        ("f((x), a=1)", "f((x))"),
        ("f(lambda p, q: p, a=1)", "f(lambda p, q: p)"),
        ("f('a=1,', a=1)", "f('a=1,')"),
        ("f(\n    x,\n    a=1,\n)", "f(\n    x,\n)"),
        ("f(\n    x,\n    a=1\n)", "f(\n    x\n)"),
        ("f(\n    a=1,\n    b=2,\n)", "f(\n    b=2,\n)"),
        ("f(\n    x,  # why\n    a=1,\n    b=2,  # how\n)", "f(\n    x,  # why\n    b=2,  # how\n)"),
        ("f(\n    x,  # why\n    a=1,\n)", "f(\n    x,  # why\n)"),
        ("f(\n    x,  # why\n    a=1\n)", "f(\n    x,  # why\n)"),
        ("f(\n    x,\n    a=1,  # quick\n    b=2,\n)", "f(\n    x,\n    b=2,\n)"),
        ("f(\n    x,\n    a=1  # quick\n)", "f(\n    x\n)"),
        ("f(x,\n  a=1, b=2)", "f(x,\n  b=2)"),
        ("f(a=1,  # quick\n  b=2)", "f(  # quick\n  b=2)"),
        ("f(x\n  , a=1\n  , b=2)", "f(x\n  , b=2)"),
        ("f(\n  x\n  , a=1\n)", "f(\n  x\n)"),
        ("f(\r\n    x,\r\n    a=1,\r\n)", "f(\r\n    x,\r\n)"),
        ("f(x, a=g(\n    1,\n), b=2)", "f(x, b=2)"),
        ("f(é, a=1)", "f(é)"),
    ],
)
def test_an_argument_goes_with_its_comma(before: str, after: str) -> None:
    assert without(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("k = {'a': 1}", "k = {}"),
        ("k = {'a': 1, 'b': 2}", "k = {'b': 2}"),
        ("k = {'b': 2, 'a': 1}", "k = {'b': 2}"),
        ("k = {\n  'b': 2,  # two\n  'a': 1,\n}", "k = {\n  'b': 2,  # two\n}"),
    ],
)
def test_an_item_goes_with_its_comma(before: str, after: str) -> None:
    module = Module.of(SourceText.of("x.py", before))
    made = next(node for node in module.nodes if isinstance(node, ast.Dict))
    at = next(
        index for index, key in enumerate(made.keys) if isinstance(key, ast.Constant) and key.value == "a"
    )
    key = made.keys[at]
    assert key is not None
    assert module.source.apply(without_item(module, key, made.values[at])).text == after


def test_an_item_in_brackets_is_refused() -> None:
    module = Module.of(SourceText.of("x.py", "k = {('a'): 1, 'b': 2}"))
    made = next(node for node in module.nodes if isinstance(node, ast.Dict))
    key = made.keys[0]
    assert key is not None
    with pytest.raises(RewriteRefused, match="brackets"):
        without_item(module, key, made.values[0])


ARGUMENTS = st.sampled_from(
    ["x", "(x)", "*x", "'(,'", "g(1, 2)", "[1,\n 2]", "lambda p, q: (p, q)", "'''\n,\n'''"]
)
KEYWORDS = st.sampled_from(["b=2", "c=(3)", "d=g(x,\n  y)", "**k"])
SHAPES = st.sampled_from(["one line", "one a line", "hanging"])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call with arguments, in one of the ways that calls are laid out; comments only behind commas."""
    given_names = draw(st.lists(KEYWORDS, max_size=3, unique=True))
    parts = [*draw(st.lists(ARGUMENTS, max_size=3)), *sorted(given_names, key=lambda part: part == "**k")]
    parts = parts or ["x"]
    shape, newline = draw(SHAPES), draw(st.sampled_from(["\n", "\r\n"]))
    indent, level = draw(st.sampled_from(["    ", "  ", "\t"])), draw(st.integers(0, 1))
    trailing = draw(st.booleans())
    if shape == "one line":
        text = f"f({', '.join(parts)}{',' if trailing else ''})"
    elif shape == "hanging":
        text = f"f({(',' + chr(10) + indent * 2).join(parts)})"
    else:
        lines = [f"{indent * (level + 1)}{part}," for part in parts]
        lines = [line + (draw(st.sampled_from(["", "  # why", "  # a, b)"]))) for line in lines]
        if not trailing:
            lines[-1] = lines[-1].rpartition(",")[0] if "#" not in lines[-1] else lines[-1]
        text = "\n".join(["f(", *lines, indent * level + ")"])
    header = "if x:\n" + indent if level else ""
    return f"{header}y = {text}; z = 1".replace("\n", newline)


@given(calls())
@example("y = f(x)")
@example("y = f(\n  x,  # why\n)")
@example("y = f(**k)")
@example("y = f(x,**k)")
def test_taking_out_what_was_added_gives_the_text_back(text: str) -> None:
    module, call = call_of(text)
    added = module.source.apply(add_keyword(module.source, call, "a=True")).text
    assert added != text
    assert without(added) == text


@given(calls())
def test_two_that_were_added_come_out_in_either_order(text: str) -> None:
    module, call = call_of(text)
    once = module.source.apply(add_keyword(module.source, call, "a=True")).text
    module, call = call_of(once)
    twice = module.source.apply(add_keyword(module.source, call, "e=1")).text
    assert without(without(twice, "e"), "a") == text
    assert without(without(twice, "a"), "e") == text
