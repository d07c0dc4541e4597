"""persistent_workers and prefetch_factor are written next to num_workers."""

from __future__ import annotations

import pytest

WRITTEN = [
    ("l = DataLoader(d, num_workers=2)\n", "l = DataLoader(d, num_workers=2, {})\n"),
    ("l = DataLoader(d, 16, True, None, None, 2)  # é\r\n", "l = DataLoader(d, 16, True, None, None, 2, {})  # é\r\n"),
    ("l = DataLoader(\n    d,\n    num_workers=2,\n)\n", "l = DataLoader(\n    d,\n    num_workers=2,\n    {},\n)\n"),
    ("k = {'num_workers': 1, 'pin_memory': True}\nl = DataLoader(d, **k)\n",
     "k = {'num_workers': 1, '{name}': {value}, 'pin_memory': True}\nl = DataLoader(d, **k)\n"),
    ('k = {}\nif cuda:\n    k.update({"num_workers": 1})\nl = DataLoader(d, **k)\n',
     'k = {}\nif cuda:\n    k.update({"num_workers": 1, "{name}": {value}})\nl = DataLoader(d, **k)\n'),
    ("import os\nl = DataLoader(d, num_workers=os.cpu_count())\n",
     "import os\nl = DataLoader(d, num_workers=os.cpu_count(), {})\n"),
    ("k = {}\nk['num_workers'] = 1\nl = DataLoader(d, **k)\n",
     "k = {}\nk['num_workers'] = 1\nk['{name}'] = {value}\nl = DataLoader(d, **k)\n"),
    ("k = dict(num_workers=3)\nl = DataLoader(d, **k)\n", "k = dict(num_workers=3, {})\nl = DataLoader(d, **k)\n"),
    ("k = {'num_workers': (1)}\nl = DataLoader(d, **k)\n",
     "k = {'num_workers': (1), '{name}': {value}}\nl = DataLoader(d, **k)\n"),
    ("k = {'num_' 'workers': 1}\nl = DataLoader(d, **k)\n",
     "k = {'num_' 'workers': 1, '{name}': {value}}\nl = DataLoader(d, **k)\n"),
]  # fmt: skip
ON_A_NAME = [
    ("W = 2\nl = DataLoader(d, num_workers=W)\n", "W = 2\nl = DataLoader(d, num_workers=W, {name}={of_w})\n", "W"),
    ("p.add_argument('--workers', default=2)\na = p.parse_args()\nl = DataLoader(d, num_workers=a.workers)\n",
     ("p.add_argument('--workers', default=2)\na = p.parse_args()\n"
      "l = DataLoader(d, num_workers=a.workers, {name}={of_w})\n"),
     "a.workers"),
    ("W = '2'\nk = {}\nk['num_workers'] = int(W)\nl = DataLoader(d, **k)\n",
     "W = '2'\nk = {}\nk['num_workers'] = int(W)\nk['{name}'] = {of_w}\nl = DataLoader(d, **k)\n", "int(W)"),
    ("W = 2\nk = {'num_workers': W}\nl = DataLoader(d, **k)\n",
     "W = 2\nk = {'num_workers': W, '{name}': {of_w}}\nl = DataLoader(d, **k)\n", "W"),
]  # fmt: skip
ASKED = [
    ("persistent_workers", "", "True", "{} > 0"),
    ("prefetch_factor", "4", "4", "4 if {} > 0 else None"),
]


def filled(text, **parts):
    for name, value in parts.items():
        text = text.replace("{" + name + "}", value)
    return text


def test_a_switch_in_a_mapping_is_changed_or_left(workshop) -> None:
    there = "k = {'num_workers': 1, 'persistent_workers': True}\nl = DataLoader(d, **k)\n"
    assert workshop(there, loader_line=2).edited("persistent_workers") == there
    off = workshop(there.replace("True", "False"), loader_line=2)
    assert off.edited("persistent_workers") == there


def choice(name, value):
    return f"{name}={value}" if value else name


@pytest.mark.parametrize(("name", "value", "literal", "_"), ASKED)
@pytest.mark.parametrize(("before", "after"), WRITTEN)
def test_beside_a_number(workshop, before, after, name, value, literal, _) -> None:
    shop = workshop(before, loader_line=before[: before.index("DataLoader")].count("\n") + 1)
    wanted = filled(after, name=name, value=literal)
    head, braces, tail = wanted.rpartition("{}")
    if braces and not head.endswith("k = "):
        wanted = f"{head}{name}={literal}{tail}"
    assert shop.edited(choice(name, value)) == wanted
    compile(wanted, "train.py", "exec", dont_inherit=True)


@pytest.mark.parametrize(("name", "value", "_", "conditional"), ASKED)
@pytest.mark.parametrize(("before", "after", "workers"), ON_A_NAME)
def test_beside_a_name_it_holds_for_none_too(
    workshop, before, after, workers, name, value, _, conditional
) -> None:
    shop = workshop(before, loader_line=before[: before.index("DataLoader")].count("\n") + 1)
    wanted = filled(after, name=name, of_w=conditional.format(workers))
    assert shop.edited(choice(name, value)) == wanted
    again = workshop(wanted, loader_line=wanted[: wanted.index("DataLoader")].count("\n") + 1)
    planned = again.plan(choice(name, value))
    assert (planned.edits, planned.refused) == ((), ())


def test_what_is_there_is_changed_or_left(workshop) -> None:
    there = "l = DataLoader(d, num_workers=2, persistent_workers=False, prefetch_factor=4)\n"
    shop = workshop(there, loader_line=1)
    assert "persistent_workers=True" in shop.edited("persistent_workers")
    assert shop.edited("prefetch_factor=4") == there
    assert "prefetch_factor=8" in shop.edited("prefetch_factor=8")


@pytest.mark.parametrize("order", [1, -1])
def test_together_with_new_workers(workshop, order) -> None:
    asked = ["num_workers=2", "persistent_workers", "prefetch_factor=4"][::order]
    shop = workshop("l = DataLoader(d, 16)\n", loader_line=1)
    assert (
        shop.edited(*asked)
        == "l = DataLoader(d, 16, num_workers=2, persistent_workers=True, prefetch_factor=4)\n"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("l = DataLoader(d)\n", "needs workers"),
        ("l = DataLoader(d, num_workers=0)\n", "`num_workers` is 0"),
        ("l = DataLoader(d, num_workers=os.cpu_count() // 2)\n", "may be 0"),
        ("l = DataLoader(d, **make())\n", "may already set"),
        ("l = make_loader(d)\n", "no DataLoader"),
        ("a, b = DataLoader(d), DataLoader(e)\n", "more than one"),
        ("l = DataLoader(d, num_workers=2, persistent_workers=flag())\n", "computed when the script runs"),
        ("k = {'num_workers': 1}\nj = {'num_workers': 2}\nl = DataLoader(d, **k)\n", "2 dictionaries"),
    ],
)
def test_refused_with_the_reason(workshop, source, said) -> None:
    line = source[: source.index("oader(")].count("\n") + 1
    shop = workshop(source, loader_line=line)
    assert said in shop.reason("persistent_workers")


@pytest.mark.parametrize("value", ["0", "x", "-1"])
def test_values_that_count_no_batches(workshop, value) -> None:
    shop = workshop("l = DataLoader(d, num_workers=1)\n", loader_line=1)
    assert "not a number" in shop.reason(f"prefetch_factor={value}")
