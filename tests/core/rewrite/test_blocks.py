"""Statements are put in, wrapped and taken out in the way the file is written."""

from __future__ import annotations

import ast

import pytest

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import insert_after, insert_before, remove, wrap, wrap_expression
from skyline.source.program import Module
from skyline.source.text import SourceText

SOURCE = (
    "for x in y:\n\ta = f(x,\n   1); b = '''\n  keep\n'''\n\t# note\n\n\tc = \\\n 2  # c\n"
    "\tif q: r; s\n\telif t: u\n\telse: v;\n"
)


def module_of(source: str) -> Module:
    return Module.of(SourceText.of("train.py", source))


def statement(module: Module, start: str) -> ast.stmt:
    return next(
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.stmt) and ast.unparse(node).startswith(start)
    )


def made(source: str, edit: object, names: str, *rest: str) -> str:
    module = module_of(source)
    chosen = [statement(module, name) for name in names.split()]
    change = edit(module, chosen if edit is wrap else chosen[0], *rest)  # type: ignore[operator]
    after = module.source.apply(change).text
    ast.parse(after)
    return after


@pytest.mark.parametrize(
    ("names", "part", "wrapped"),
    [
        ("a c", "\ta = f(x,\n   1); b = '''\n  keep\n'''\n\t# note\n\n\tc = \\\n 2",
         "\twith w:\n\t\ta = f(x,\n\t   1); b = '''\n  keep\n'''\n\t\t# note\n\n\t\tc = \\\n\t 2"),
        ("a", "\ta = f(x,\n   1); b", "\twith w:\n\t\ta = f(x,\n\t   1)\n\tb"),
        ("b", "   1); b = '''\n  keep\n'''", "   1)\n\twith w:\n\t\tb = '''\n  keep\n'''"),
        ("c", "\tc = \\\n 2", "\twith w:\n\t\tc = \\\n\t 2"),
        ("r", "q: r; s", "q:\n\t\twith w:\n\t\t\tr\n\t\ts"),
        ("s", "q: r; s", "q:\n\t\tr\n\t\twith w:\n\t\t\ts"),
        ("r s", "q: r; s", "q:\n\t\twith w:\n\t\t\tr\n\t\t\ts"),
        ("u", "t: u", "t:\n\t\twith w:\n\t\t\tu"),
        ("v", "else: v;", "else:\n\t\twith w:\n\t\t\tv;"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_block_is_put_around_neighbours(names: str, part: str, wrapped: str, newline: str) -> None:
    assert part in SOURCE
    after = made(SOURCE.replace("\n", newline), wrap, names, "with w:")
    assert after == SOURCE.replace(part, wrapped).replace("\n", newline)


@pytest.mark.parametrize(
    ("edit", "name", "lines", "part", "after"),
    [
        (insert_before, "a", ("n = 1",), "\ta = f", "\tn = 1\n\ta = f"),
        (insert_before, "b", ("n = 1",), "; b", "; n = 1; b"),
        (insert_before, "b", ("if n:", "    m()"), "; b", "\n\tif n:\n\t\tm()\n\tb"),
        (insert_before, "r", ("n = 1",), "q: r", "q: n = 1; r"),
        (insert_after, "a", ("n = 1",), "1); b", "1); n = 1; b"),
        (insert_after, "a", ("if n:", "    m()"), "1); b", "1)\n\tif n:\n\t\tm()\n\tb"),
        (insert_after, "b", ("n = 1",), "keep\n'''", "keep\n'''\n\tn = 1"),
        (insert_after, "c", ("n = 1", "m()"), "# c", "# c\n\tn = 1\n\tm()"),
        (insert_after, "s", ("n = 1",), "; s", "; s; n = 1"),
        (insert_after, "v", ("n = 1",), "v;", "v; n = 1;"),
        (insert_after, "for", ("n = 1",), "v;\n", "v;\nn = 1\n"),
        (remove, "a", (), "\ta = f(x,\n   1); b", "\tb"),
        (remove, "b", (), "; b = '''\n  keep\n'''", ""),
        (remove, "c", (), "\tc = \\\n 2  # c\n", ""),
        (remove, "r", (), "r; s", "s"),
        (remove, "s", (), "r; s", "r"),
        (remove, "u", (), "t: u", "t: pass"),
    ],
)  # fmt: skip
def test_statements_come_and_go(
    edit: object, name: str, lines: tuple[str, ...], part: str, after: str
) -> None:
    assert part in SOURCE
    assert made(SOURCE, edit, name, *lines) == SOURCE.replace(part, after)


@pytest.mark.parametrize(
    ("names", "part", "after"),
    [
        ("a b", "\ta = f(x,\n   1); b = '''\n  keep\n'''\n", ""),
        ("a b c", "\ta = f(x,\n   1); b = '''\n  keep\n'''\n\t# note\n\n\tc = \\\n 2  # c\n", "\t# note\n\n"),
        ("r s", "r; s", "pass"),
    ],
)
def test_several_statements_go_together(names: str, part: str, after: str) -> None:
    module = module_of(SOURCE)
    change = remove(module, *(statement(module, name) for name in names.split()))
    assert part in SOURCE
    assert module.source.apply(change).text == SOURCE.replace(part, after)


@pytest.mark.parametrize(
    ("source", "names", "after"),
    [
        ("a ;b ; c; d  # d", "a b", "c; d  # d"),
        ("a ;b ; c; d  # d", "b c", "a ;d  # d"),
        ("a ;b ; c; d  # d", "c d", "a ;b  # d"),
        ("a ;b ; c; d;", "a d", "b ; c;"),
        ("a ;b ; c\r\nd", "b c", "a\r\nd"),
    ],
)
def test_neighbours_on_one_line_go(source: str, names: str, after: str) -> None:
    module = module_of(source)
    change = remove(module, *(statement(module, name) for name in names.split()))
    assert module.source.apply(change).text == after


def test_no_blanks_are_left_where_lines_are_parted() -> None:
    assert made("a ; b\n", wrap, "b", "with w:") == "a\nwith w:\n    b\n"


@pytest.mark.parametrize(
    ("source", "names", "after"),
    [
        ("a\nb  # b\nc\n", "a b", "with w:\n    a\n    b  # b\n    d\ne\nc\n"),
        ("a ; b\n", "a", "with w:\n    a\n    d\ne\nb\n"),
        ("a; b\r\n", "b", "a\r\nwith w:\r\n    b\r\n    d\r\ne\r\n"),
        ("if q: a; b\n", "a", "if q:\n    with w:\n        a\n        d\n    e\n    b\n"),
        ("if q: a; b\n", "b", "if q:\n    a\n    with w:\n        b\n        d\n    e\n"),
    ],
)
def test_lines_follow_a_new_block(source: str, names: str, after: str) -> None:
    module = module_of(source)
    change = wrap(
        module, [statement(module, name) for name in names.split()], "with w:", after=("    d", "e")
    )
    assert module.source.apply(change).text == after


def test_decorators_belong_to_their_function() -> None:
    source = "class A:\n  @ f(1)\n  @g\n  async def m(self): pass"
    assert made(source, insert_before, "@f", "n = 1") == source.replace("  @ f", "  n = 1\n  @ f")
    assert made(source, insert_after, "@f", "n = 1") == source + "\n  n = 1"
    assert (
        made(source, wrap, "@f", "if n:")
        == "class A:\n  if n:\n    @ f(1)\n    @g\n    async def m(self): pass"
    )


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("try: a\nexcept E: b\n", "try: a\nexcept E:\n    with w:\n        b\n"),
        ("match q:\n  case 1: b\n", "match q:\n  case 1:\n    with w:\n      b\n"),
        ("while q: b", "while q:\n    with w:\n        b"),
    ],
)
def test_the_block_of_any_header(source: str, after: str) -> None:
    assert made(source, wrap, "b", "with w:") == after


def test_what_has_no_room_is_refused() -> None:
    module = module_of(SOURCE)
    with pytest.raises(RewriteRefused, match="header"):
        insert_before(module, statement(module, "r"), "if n:", "    m()")
    with pytest.raises(RewriteRefused, match="elif"):
        insert_before(module, statement(module, "if t"), "n = 1")
    with pytest.raises(RewriteRefused, match="one block"):
        wrap(module, [statement(module, "a"), statement(module, "r")], "with w:")
    module = module_of("a; \\\n b\n")
    with pytest.raises(RewriteRefused, match="backslash"):
        wrap(module, [statement(module, "b")], "with w:")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = f(y)  # é", "x = g(f(y))  # é"),
        ("x = a, b", "x = g((a, b))"),
        ("x = (a, b)", "x = g((a, b))"),
        ("x = [\n  a\n]", "x = g([\n  a\n])"),
        ("é = 'ü' if a else b", "é = g('ü' if a else b)"),
    ],
)
def test_an_expression_goes_into_a_call(source: str, after: str) -> None:
    module = module_of(source)
    node = module.tree.body[0]
    assert isinstance(node, ast.Assign)
    assert module.source.apply(wrap_expression(module, node.value, "g(", ")")).text == after


def test_a_yield_does_not() -> None:
    module = module_of("def f():\n    x = yield 1\n")
    node = statement(module, "x")
    assert isinstance(node, ast.Assign)
    with pytest.raises(RewriteRefused):
        wrap_expression(module, node.value, "g(", ")")
