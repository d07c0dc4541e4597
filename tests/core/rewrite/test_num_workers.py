"""num_workers is added to, or changed in, the call that made the training's loader."""

from __future__ import annotations

from dataclasses import replace

import pytest

ADDED = [
    ("l = DataLoader(d, 16)\n", "l = DataLoader(d, 16, num_workers=2)\n"),
    ("l = DataLoader(d, 16,)\n", "l = DataLoader(d, 16, num_workers=2,)\n"),
    ("l = DataLoader(d, (16))\n", "l = DataLoader(d, (16), num_workers=2)\n"),
    ("l = DataLoader(d, 16)  # é\r\n", "l = DataLoader(d, 16, num_workers=2)  # é\r\n"),
    ("é = 'é€😀'; l = DataLoader(d, 16); y = 1", "é = 'é€😀'; l = DataLoader(d, 16, num_workers=2); y = 1"),
    ("l = DataLoader(\n    d,\n    16,\n)\n", "l = DataLoader(\n    d,\n    16,\n    num_workers=2,\n)\n"),
    ("l = DataLoader(\n\td,\n\t16\n)\n", "l = DataLoader(\n\td,\n\t16,\n\tnum_workers=2\n)\n"),
    (
        "l = DataLoader(\r\n    d,\r\n    16,  # per GPU\r\n    # later: more\r\n)\r\n",
        "l = DataLoader(\r\n    d,\r\n    16,  # per GPU\r\n    num_workers=2,\r\n    # later: more\r\n)\r\n",
    ),
    (
        "l = DataLoader(\n    d,\n    f(1,\n      2)  # why, oh\n)\n",
        "l = DataLoader(\n    d,\n    f(1,\n      2),  # why, oh\n    num_workers=2,\n)\n",
    ),
    ("l = DataLoader(d,\n               16)\n", "l = DataLoader(d,\n               16, num_workers=2)\n"),
    ("l = DataLoader(\n    d, 16\n)\n", "l = DataLoader(\n    d, 16,\n    num_workers=2\n)\n"),
    (
        "k = {'shuffle': True}\nl = DataLoader(d, 16, **k)\n",
        "k = {'shuffle': True}\nl = DataLoader(d, 16, num_workers=2, **k)\n",
    ),
    (
        "k = dict(shuffle=True)\nl = DataLoader(\n    d,\n    **k,\n)\n",
        "k = dict(shuffle=True)\nl = DataLoader(\n    d,\n    num_workers=2,\n    **k,\n)\n",
    ),
    ("l = wrap(DataLoader(d, g(x)))\n", "l = wrap(DataLoader(d, g(x), num_workers=2))\n"),
    ("l = DataLoader(d, num_workers=0)\n", "l = DataLoader(d, num_workers=2)\n"),
    ("l = DataLoader(d, 16, True, None, None, 0)\n", "l = DataLoader(d, 16, True, None, None, 2)\n"),
    ("l = DataLoader(d, num_workers=os.cpu_count())\n", "l = DataLoader(d, num_workers=2)\n"),
    ("W = 0\nl = DataLoader(d, num_workers=W)\n", "W = 2\nl = DataLoader(d, num_workers=W)\n"),
    (
        "k = {'num_workers': 0}\nl = DataLoader(d, **k)\n",
        "k = {'num_workers': 2}\nl = DataLoader(d, **k)\n",
    ),
    (
        "k = {}\nif cuda:\n    k.update({'num_workers': 1})\nl = DataLoader(d, **k)\n",
        "k = {}\nif cuda:\n    k.update({'num_workers': 1})\nl = DataLoader(d, **{**k, \"num_workers\": 2})\n",
    ),
    (
        "k = {'num_workers': 1} if cuda else {}\nl = DataLoader(d, 16, **k)\n",
        "k = {'num_workers': 1} if cuda else {}\nl = DataLoader(d, 16, **{**k, \"num_workers\": 2})\n",
    ),
    (
        "k = {'num_workers': 2}\nl = DataLoader(d, **k if cuda else {})\n",
        "k = {'num_workers': 2}\nl = DataLoader(d, **{**(k if cuda else {}), \"num_workers\": 2})\n",
    ),
    (
        "l = DataLoader(d, **{**k, 'num_workers': 1})\n",
        "l = DataLoader(d, **{**k, 'num_workers': 2})\n",
    ),
    (
        "p.add_argument('--workers', default=0)\na = p.parse_args()\nl = DataLoader(d, num_workers=a.workers)\n",
        "p.add_argument('--workers', default=2)\na = p.parse_args()\nl = DataLoader(d, num_workers=a.workers)\n",
    ),
    ("l = DataLoader(d, num_workers=2)\n", "l = DataLoader(d, num_workers=2)\n"),
]


@pytest.mark.parametrize(("before", "after"), ADDED)
def test_written_as_the_call_is_written(workshop, before: str, after: str) -> None:
    line = before[: before.index("DataLoader")].count("\n") + 1
    shop = workshop(before, loader_line=line)
    assert shop.edited("num_workers=2") == after
    compile(after, "train.py", "exec", dont_inherit=True)


@pytest.mark.parametrize("line", [2, None])
def test_a_loader_that_is_imported_under_another_name(workshop, line: int | None) -> None:
    before = "from torch.utils.data import DataLoader as Batches\nl = Batches(d, batch_size=16)\n"
    shop = workshop(before, loader_line=line)
    assert shop.edited("num_workers=2") == before.replace("16)", "16, num_workers=2)")


def test_without_a_line_the_training_loader_is_meant(workshop) -> None:
    source = "test_loader = DataLoader(v, 16)\ntrain_loader = DataLoader(t, 16)\n"
    changed = workshop(source).edited("num_workers=2")
    assert changed == "test_loader = DataLoader(v, 16)\ntrain_loader = DataLoader(t, 16, num_workers=2)\n"


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("def f(**k):\n    return DataLoader(d, **k)\n", 2, "may already set"),
        ("k = {}\nk.update(unknown())\nl = DataLoader(d, **k)\n", 3, "may already set"),
        ("l = make_loader(d)\n", 1, "no DataLoader"),
        ("a, b = DataLoader(d), DataLoader(e)\n", 1, "more than one"),
        ("l = DataLoader(d, num_workers=args.workers)\n", 1, "does not lead"),
        ("W = 2 * n\nl = DataLoader(d, num_workers=W)\n", 2, "does not lead"),
        ("a = DataLoader(d)\nb = DataLoader(e)\n", None, "Several"),
        ("x = 1\n", None, "no DataLoader"),
    ],
)
def test_refused_with_the_reason(workshop, source: str, line: int | None, said: str) -> None:
    assert said in workshop(source, loader_line=line).reason("num_workers=2")


def test_a_branch_that_the_run_took_is_changed_in_its_place(workshop) -> None:
    source = "k = {}\nif cuda:\n    k.update({'num_workers': 1})\nl = DataLoader(d, **k)\n"
    shop = workshop(source, loader_line=4)
    taken = replace(
        shop, profile=replace(shop.profile, loaders=(replace(shop.profile.loaders[0], num_workers=1),))
    )
    assert "{'num_workers': 2}" in taken.edited("num_workers=2")


def test_a_number_that_the_run_did_not_go_by(workshop) -> None:
    source = "W = 4\nexec(open('overrides.py').read())\nl = DataLoader(d, num_workers=W)\n"
    assert "another number of workers" in workshop(source, loader_line=3).reason("num_workers=2")


def test_an_option_that_the_command_line_sets(workshop) -> None:
    source = "p.add_argument('--workers', default=0)\na = p.parse_args()\nl = DataLoader(d, num_workers=a.workers)\n"
    reason = workshop(source, loader_line=3, arguments=("--workers=1",)).reason("num_workers=2")
    assert "--workers=1" in reason


@pytest.mark.parametrize("value", ["x", "-1", "1.5"])
def test_values_that_count_nothing(workshop, value: str) -> None:
    assert "not a number" in workshop("l = DataLoader(d)\n", loader_line=1).reason(f"num_workers={value}")


def test_no_workers_beside_what_needs_them(workshop) -> None:
    shop = workshop("l = DataLoader(d, num_workers=2, persistent_workers=True)\n", loader_line=1)
    assert "persistent_workers" in shop.reason("num_workers=0")


def test_workers_go_where_a_mapping_may_keep_them_only_if_the_run_kept_none(workshop) -> None:
    shop = workshop("l = DataLoader(d, num_workers=2, **options())\n", loader_line=1)
    assert (
        shop.after(shop.without("num_workers")).files["/project/train.py"]
        == "l = DataLoader(d, **options())\n"
    )
    kept = replace(shop.profile.loaders[0], persistent_workers=True)
    shop = replace(shop, profile=replace(shop.profile, loaders=(kept,)))
    (refused,) = shop.without("num_workers").refused
    assert "`**options()` may already set" in refused.reason


def test_without_a_guard_workers_cannot_import_the_script(workshop) -> None:
    shop = workshop("l = DataLoader(d)\n", loader_line=1)
    elsewhere = replace(shop.profile.environment, platform="macOS-14")
    shop = replace(shop, profile=replace(shop.profile, environment=elsewhere))
    assert "__main__" in shop.reason("num_workers=2")
    guarded = workshop("if __name__ == '__main__':\n    l = DataLoader(d)\n", loader_line=2)
    guarded = replace(guarded, profile=replace(guarded.profile, environment=elsewhere))
    assert "num_workers=2" in guarded.edited("num_workers=2")


def test_a_line_that_changed_is_refused(workshop) -> None:
    shop = workshop("l = DataLoader(d)\n", loader_line=1)
    later = replace(shop, files={"/project/train.py": "\nl = DataLoader(e)\n"})
    assert "changed" in later.reason("num_workers=2")
    moved = replace(shop, files={"/project/train.py": "\nx = 1\nl = DataLoader(d)\n"})
    assert moved.edited("num_workers=2") == "\nx = 1\nl = DataLoader(d, num_workers=2)\n"
    elsewhere = replace(shop, files={"/project/train.py": "l = DataLoader(d)\nx = 1\n"})
    assert elsewhere.edited("num_workers=2") == "l = DataLoader(d, num_workers=2)\nx = 1\n"


ARGUMENT = "from argparse import ArgumentParser as P\np = P()\np.add_argument('--num-workers', type=int, default=4)\n"


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import TrainingArguments as A\nA('out', dataloader_num_workers=4)\n",
        "from skorch import NeuralNetClassifier as N\nN(M, batch_size=8, iterator_train__num_workers=4)\n",
        "class Config:\n    num_workers: int = 4\n",
        "config = {'num_workers': 4, 'width': 3}\n",
        "def data(num_workers=4): pass\n",
        "num_workers = 4\n",
        ARGUMENT,
    ],
)
def test_a_loader_of_a_library_takes_its_workers_from_a_named_literal(workshop, source: str) -> None:
    shop = with_workers(workshop(source), 4)
    planned = shop.plan("num_workers=2")
    assert shop.after(planned).files["/project/train.py"] == source.replace("4", "2")
    assert shop.plan("num_workers=4").edits == ()


def test_a_net_of_skorch_gets_the_argument_of_its_loader(workshop) -> None:
    source = "import skorch\nnet = skorch.NeuralNetClassifier(Model, iterator_valid__num_workers=3)\nnet.fit(x, y)\n"
    shop = with_workers(workshop(source), 0)
    planned = shop.plan("num_workers=2")
    after = shop.after(planned).files["/project/train.py"]
    assert after == source.replace("num_workers=3)", "num_workers=3, iterator_train__num_workers=2)")
    two = with_workers(workshop(source + source), 0)
    assert "DataLoader" in two.reason("num_workers=2")


def with_workers(shop, number: int):
    return replace(
        shop, profile=replace(shop.profile, loaders=(replace(shop.profile.loaders[0], num_workers=number),))
    )


def test_a_named_literal_that_does_not_decide(workshop) -> None:
    twice = with_workers(workshop("num_workers = 4\nconfig = {'num_workers': 4}\n"), 4)
    assert "num_workers is 4 in several places: train.py:1, train.py:2" in twice.reason("num_workers=2")
    forced = with_workers(workshop(ARGUMENT, arguments=("--num-workers", "4")), 4)
    assert "The command line sets --num-workers" in forced.reason("num_workers=2")
    other = with_workers(workshop("num_workers = 8\n"), 4)
    assert "no DataLoader" in other.reason("num_workers=2")
