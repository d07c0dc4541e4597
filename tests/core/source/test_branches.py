"""Which steps of a forward method need which, as a person reads them off the source."""

from __future__ import annotations

from textwrap import indent

import pytest

from skyline.source.branches import NotFollowed, Step, steps_of

MEMBERS = ("stem", "a", "b", "c", "towers", "tables", "layers", "head", "heads")


def steps(body: str) -> tuple[Step, ...]:
    return steps_of(f"class Net:\n    def forward(self, x, ids):\n{indent(body, ' ' * 8)}\n", 2, MEMBERS)


def needs(body: str) -> list[tuple[str, set[int]]]:
    return [("+".join(step.members), set(step.needs)) for step in steps(body)]


def test_a_chain():
    assert needs("x = self.stem(x)\nreturn self.head(self.a(x))") == [
        ("stem", set()), ("a", {0}), ("head", {1}),
    ]  # fmt: skip


def test_the_own_work_of_a_statement_comes_after_its_calls():
    found = steps("y = torch.relu(self.stem(x))\nreturn self.head(y)")
    assert [(one.members, set(one.needs)) for one in found] == [
        (("stem",), set()),
        ((), {0}),
        (("head",), {1}),
    ]
    assert [one.lines for one in found] == [(3, 3), (3, 3), (4, 4)]


def test_branches_of_an_inception_block():
    body = """\
x = self.stem(x)
one = self.a(x)
pooled = F.avg_pool2d(x, 3)
two = self.b(pooled)
return torch.cat([one, two, self.c(x)], 1)
"""
    assert needs(body) == [
        ("stem", set()), ("a", {0}), ("", {0}), ("b", {2}), ("c", {0}), ("", {1, 3, 4}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        "h = [tower(x) for tower in self.towers]\nreturn self.head(torch.cat(h))",
        "h = torch.cat([t(x) for _, t in enumerate(self.towers)])\nreturn self.head(h)",
        "h = []\nfor tower in self.towers:\n    h.append(tower(x))\nreturn self.head(torch.cat(h))",
        "h = []\nfor i in range(4):\n    y = self.towers[i](x)\n    h.append(y)\nreturn self.head(torch.cat(h))",
        "h = {k: t(x) for k, t in self.towers.items()}\nreturn self.head(torch.cat(list(h.values())))",
        "h = torch.cat([t(y) for t, y in zip(self.towers, ids)])\nreturn self.head(h)",
    ],
)
def test_elements_of_a_container_are_apart(body):
    first, second, third = needs(body)
    assert first == ("towers.*", set())
    assert {second[0], third[0]} == {"", "head"}
    assert (second[1], third[1]) == ({0}, {1})


def test_values_that_one_statement_gives_to_several_names_are_apart():
    found = needs("q, k = self.a(x), self.b(x)\nq = q.relu()\nk = k.relu()\nreturn q @ k")
    assert found == [("a", set()), ("b", set()), ("", {0}), ("", {1}), ("", {2, 3})]


def test_a_loop_that_hands_something_on_is_one_step():
    found = needs("for layer in self.layers:\n    x = layer(x)\nreturn self.head(x)")
    assert found == [("layers", set()), ("head", {0})]
    summed = "total = self.stem(x)\nfor t in self.towers:\n    total = total + t(x)\nreturn total"
    assert [members for members, _ in needs(summed)] == ["stem", "towers"]


def test_parts_of_a_submodule():
    assert needs("return self.a.first(x) + self.b[0](x) + self.heads['left'](x)") == [
        ("a.first", set()), ("b.0", set()), ("heads.left", set()), ("", {0, 1, 2}),
    ]  # fmt: skip


def test_a_statement_with_conditions_waits_for_what_it_reads():
    found = needs("y = self.a(x)\nz = self.b(x)\nif self.training:\n    y = self.c(y)\nreturn y + z")
    assert found == [("a", set()), ("b", set()), ("c", {0}), ("", {1, 2})]


def test_all_wait_for_a_statement_that_may_end_the_method():
    found = needs("y = self.a(x)\nif y is None:\n    return y\nreturn self.b(x)")
    assert found == [("a", set()), ("", {0}), ("b", {1})]


def test_a_write_in_place_waits_for_those_that_read_before():
    found = needs("y = self.stem(x)\nz = self.a(y)\ny += 1\nreturn self.b(y)")
    assert found == [("stem", set()), ("a", {0}), ("", {0, 1}), ("b", {2})]
    call = needs("y = self.stem(x)\nz = self.a(y)\ny = F.relu(y, inplace=True)\nreturn self.b(y)")
    assert call[2] == ("", {0, 1})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return self.helper(self.a(x))", "a method of its own, helper"),
        ("self.cache = self.a(x)\nreturn self.b(x)", "writes into an object"),
        ("y = self.a(x)\ny.mul_(2)\nreturn y", ""),
        ("y = self.a(x).mul_(2)\nreturn y", "in place with mul_"),
        ("y = sorted(x, key=lambda z: self.a(z))\nreturn y", "not followed"),
        ("try:\n    return self.a(x)\nfinally:\n    pass", "not followed"),
    ],
)
def test_what_is_not_followed_is_named(body, why):
    if not why:
        # In a statement of its own it is one step, which those behind it wait for.
        assert needs(body) == [("a", set()), ("", {0})]
        return
    with pytest.raises(NotFollowed, match=why):
        steps(body)


def test_a_method_that_is_not_there():
    with pytest.raises(NotFollowed, match="no longer at its recorded line"):
        steps_of("x = 1\n", 1, ())
    with pytest.raises(NotFollowed, match="cannot be parsed"):
        steps_of("def f(:\n", 1, ())
    text = "class Net:\n    @torch.no_grad()\n    def forward(self, x):\n        return self.a(x)\n"
    assert steps_of(text, 2, ("a",)) == steps_of(text, 3, ("a",)) == (Step((4, 4), frozenset(), ("a",)),)
