"""Every rewrite on a few generated scripts, and the errors that the checks must detect."""

from __future__ import annotations

import pytest

from skyline.rewrite.registry import entries
from skyline.source.text import SourceText

BEFORE = (
    "import torch\n"
    "from torch import nn\n"
    "def g(y):\n"
    "    for x in y:\n"
    "        a = torch.f(x)  # why\n"
    "        b = 1\n"
    "    return a\n"
    "c = g(2)\n"
)


def test_no_rewrite_corrupts_a_script() -> None:
    from rewrite_variants import tried

    outcomes = tried(100, 6)
    assert outcomes.corrupted == []
    assert outcomes.variants == 6
    rewritten = {name for name, counts in outcomes.by_rewrite.items() if counts["rewritten"]}
    assert rewritten >= {"amp", "batch_size", "pin_memory", "num_workers"}
    assert outcomes.by_rewrite.keys() >= {name for name in entries() if name != "remove_sync"}


def test_every_rewrite_has_targets() -> None:
    from rewrite_targets import TARGETS

    assert TARGETS.keys() >= entries().keys()


def test_scripts_are_those_of_their_numbers_and_compile() -> None:
    from source_variants import variant

    made = [variant(number) for number in range(40)]
    assert made == [variant(number) for number in range(40)]
    assert len({each.source.text for each in made}) == 40
    for each in made:
        compile(each.source.text, "made up", "exec", dont_inherit=True)
        each.source.encode()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        b = 1", "        if x:\n            b = 1", ""),
        ("        b = 1", "    b = 1", "another block"),
        ("a = torch", "a_ = torch", "tokens"),
        ("c = g(2)", "c = g(d); d = 2", "bound on line"),
        ("import torch\nfrom", "import torch\r\nfrom", "new kind of line end"),
        ("c = g(2)\n", "c = g(2)", "end of the last line changed"),
        ("b = 1\n", "b = 1 \n", "blanks at the end"),
        ("  # why", "\n        # why", "no longer on a line with code"),
        ("  # why", "", "its code is not"),
        ("  # why", "\n        z = 2  # why", "no longer follows"),
        ("  # why", "; z = 2  # why", ""),
        ("return a", "return a, z", "nothing binds"),
        ("        b = 1", "        b = 1; torch = 2", "looked up"),
        ("        b = 1\n", "        b = 1\n        for x in y: pass\n", "once more"),
        ("c = g(2)\n", "c = g(2)\nimport torch\n", "once more"),
        ("        b = 1\n    return", "        b = 1 +\\\n    return", "does not compile"),
        (
            "from torch import nn\n",
            "from torch import nn\nfrom __future__ import division\n",
            "does not compile",
        ),
    ],
)
def test_what_an_edit_does_to_the_rest_is_noticed(old: str, new: str, said: str) -> None:
    from rewrite_checks import Corrupted, check, undone

    source = SourceText.of("train.py", BEFORE)
    edit = smallest(source, BEFORE.replace(old, new))
    after = source.apply((edit,))
    assert after.text == BEFORE.replace(old, new)
    assert undone(source, after, (edit,))
    if not said:
        check(source, after, (edit,))
        return
    with pytest.raises(Corrupted, match=said):
        check(source, after, (edit,))


def alike(one: str, other: str) -> int:
    """The length of the longest common beginning of two texts, in characters."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def smallest(source: SourceText, after: str):
    """One edit between the common beginning and the common end of two texts."""
    first = alike(source.text, after)
    last = alike(source.text[first:][::-1], after[first:][::-1])
    place = source.span(first, len(source.text) - last)
    return source.edit(place, after[first : len(after) - last])


@pytest.mark.parametrize(
    ("header", "wrapped", "said"),
    [
        ("with torch.autocast('cuda'):", ("x = model(1)", "loss = x"), ""),
        ("with torch.autocast('cuda'):", ("x = model(1)", "loss = x", "y = 2"), "not for it"),
        ("with torch.autocast('cuda'):", ("z = 1", "x = model(1)", "loss = x"), "not for it"),
        ("for a in b.chunk(2):", ("x = model(1)", "loss = x"), "not for it"),
        ("while True:", ("x = model(1)",), "not for it"),
    ],
)
def test_what_a_block_is_not_for_is_noticed(header: str, wrapped: tuple[str, ...], said: str) -> None:
    from rewrite_blocks import check_blocks
    from rewrite_checks import Corrupted, check
    from source_reading import read

    statements = ("torch = b = model = 0", "z = 1", "x = model(1)", "loss = x", "y = 2")
    source = SourceText.of("train.py", "\n".join(statements) + "\n")
    first, last = statements.index(wrapped[0]) + 1, statements.index(wrapped[-1]) + 1
    edits = []
    for line in range(first, last + 1):
        start = source.offset(line, 0)
        text = f"{header}\n    " if line == first else "    "
        edits.append(source.edit(source.span(start, start), text))
    after = source.apply(edits)
    mapped = check(source, after, edits)
    names = {"model": "model", "loss": "loss"}
    if not said:
        check_blocks(read(source.text), read(after.text), mapped, names)
        return
    with pytest.raises(Corrupted, match=said):
        check_blocks(read(source.text), read(after.text), mapped, names)


def test_an_argument_of_something_else_is_noticed() -> None:
    from rewrite_checks import Corrupted
    from rewrite_targets import check_keywords
    from source_reading import read

    names = {"DataLoader": "data.Loader"}
    old = read("loader = data.Loader(make(x))\n")
    check_keywords(old, read("loader = data.Loader(make(x), num_workers=2)\n"), names)
    with pytest.raises(Corrupted, match="num_workers is given to make"):
        check_keywords(old, read("loader = data.Loader(make(x, num_workers=2))\n"), names)
    with pytest.raises(Corrupted, match="nw is given to Loader"):
        check_keywords(old, read("loader = data.Loader(make(x), nw=2)\n"), names)


def test_what_no_edit_says_is_noticed() -> None:
    from rewrite_checks import Corrupted, check

    source = SourceText.of("train.py", BEFORE)
    with pytest.raises(Corrupted, match="do not give the text"):
        check(source, SourceText.of("train.py", BEFORE.replace("# why", "# wny")), ())
    with pytest.raises(Corrupted, match="encoding"):
        check(source, SourceText("train.py", BEFORE, "latin-1"), ())


@pytest.mark.parametrize(
    ("old", "new", "names", "said"),
    [
        ("f(x)", "f(x, fused=True)", ["fused_optimizer"], ""),
        ("f(x)", "f(x, fused=True)", ["tf32", "fused_optimizer"], ""),
        ("f(x)", "f(x, fused=True)", ["tf32"], "is written"),
        ("f(x)", "f(x, fused=False)", ["fused_optimizer"], "'False' is written"),
        ("f(x)", "f(y, fused=True)", ["fused_optimizer"], "'x' is gone"),
        ("g(2)", "g(64)", ["batch_size"], ""),
        ("g(2)", "h(64)", ["batch_size"], "'g' is gone"),
        ("g(2)", "g(64)", ["unheard_of"], "is gone"),
    ],
)
def test_what_a_rewrite_is_not_for_is_noticed(old: str, new: str, names: list[str], said: str) -> None:
    from rewrite_checks import Corrupted
    from rewrite_targets import check_targets

    source = SourceText.of("train.py", BEFORE)
    start = BEFORE.index(old)
    edit = source.edit(source.span(start, start + len(old)), new)
    if not said:
        check_targets(BEFORE, (edit,), names)
        return
    with pytest.raises(Corrupted, match=said):
        check_targets(BEFORE, (edit,), names)
