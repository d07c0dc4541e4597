"""The batch size is found in every form people write it in, and changed without touching anything else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from skyline.errors import RewriteRefused, UsageError
from skyline.source.batch_size import find, with_value
from skyline.source.knob import KnobKind, KnobSearch
from skyline.source.text import SourceSpan, SourceText, TextEdit

SCRIPT = "/project/train.py"
IMPORT = "from torch.utils.data import DataLoader\n"
ARGUMENTS = "import argparse\np = argparse.ArgumentParser()\n"


def search(
    source: str | bytes, arguments: tuple[str, ...] = (), others: dict[str, str] | None = None
) -> tuple[SourceText, KnobSearch]:
    data = source if isinstance(source, bytes) else source.encode()
    text = SourceText.decode(SCRIPT, data)

    def read(path: Path) -> SourceText | None:
        found = (others or {}).get(path.as_posix().removeprefix("/project/"))
        return SourceText.of(str(path), found) if found is not None else None

    return text, find(text, arguments, read)


@dataclass(frozen=True)
class Row:
    """A source with ``@`` before the literal that sets the batch size, and what that literal is."""

    name: str
    source: str
    kind: KnobKind
    value: int = 64
    knob: str = ""
    text: str = ""
    encoding: str = "utf-8"
    after: str = "7"


ROWS = [
    Row("keyword", IMPORT + "l = DataLoader(d, batch_size=@64)\n", KnobKind.CALL_ARGUMENT),
    Row("positional", IMPORT + "l = DataLoader(d, @64, True)\n", KnobKind.CALL_ARGUMENT),
    Row("crlf", IMPORT.replace("\n", "\r\n") + "B = @64\r\nl = DataLoader(d, B)\r\n", KnobKind.CONSTANT),
    Row("cr only", "import torch\rB = @64\rl = DataLoader(d, B)\r", KnobKind.CONSTANT),
    Row("mixed newlines", "import x\rB = @64\r\n\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row("byte order mark", "\ufeffB = @64\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row(
        "latin-1 cookie",
        "# -*- coding: latin-1 -*-\nx = 'é'; B = @64\nl = DataLoader(d, B)\n",
        KnobKind.CONSTANT,
        encoding="latin-1",
    ),
    Row("tabs", "def f():\n\tB = @64\n\tl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row("non-ascii before it", "x = 'é€😀'; B = @64; l = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row(
        "one argument per line",
        "train_loader = DataLoader(\n    d,\n    batch_size=@64,  # per GPU\n    shuffle=True,\n)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row("underscore", "B = @1_024\nl = DataLoader(d, B)\n", KnobKind.CONSTANT, 1024, text="1_024"),
    Row("power", "B = @2**9\nl = DataLoader(d, B)\n", KnobKind.CONSTANT, 512, text="2**9", after="7"),
    Row("product", "B = @4 * 16\nl = DataLoader(d, B)\n", KnobKind.CONSTANT, text="4 * 16", after="7"),
    Row("hex", "B = @0x40\nl = DataLoader(d, B)\n", KnobKind.CONSTANT, text="0x40", after="0x7"),
    Row("trailing comment", "B = @64# was 32\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row(
        "annotated default",
        "def f(d, bs: int = @64):\n    return DataLoader(d, batch_size=bs)\n",
        KnobKind.PARAMETER_DEFAULT,
        knob="bs",
    ),
    Row(
        "keyword-only default",
        "def f(d, *, bs=@64) -> DataLoader:\n    return DataLoader(d, batch_size=bs)\nf(d)\n",
        KnobKind.PARAMETER_DEFAULT,
    ),
    Row(
        "call before default",
        "def f(d, bs=32):\n    return DataLoader(d, batch_size=bs)\nf(d, bs=@64)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "training call before evaluation call",
        "def f(d, bs):\n    return DataLoader(d, batch_size=bs)\nval_loader = f(d, 10)\ntrain_loader = f(d, @64)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "argparse",
        ARGUMENTS
        + "p.add_argument('-b', '--batch-size', type=int, choices=[32, 64], default=@64, help='x')\n"
        "a = p.parse_args()\nl = DataLoader(d, a.batch_size)\n",
        KnobKind.ARGPARSE_DEFAULT,
        knob="--batch-size",
    ),
    Row(
        "argparse in a function, dest, parameter",
        "def get():\n    import argparse\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--bsz', dest='n', default=@64)\n    return p.parse_known_args()[0]\n"
        "def main(args):\n    l = DataLoader(d, batch_size=args.n)\nmain(get())\n",
        KnobKind.ARGPARSE_DEFAULT,
        knob="--bsz",
    ),
    Row(
        "argparse default that is a constant",
        ARGUMENTS + "SIZE = @64\np.add_argument('--batch-size', default=SIZE)\n"
        "l = DataLoader(d, p.parse_args().batch_size)\n",
        KnobKind.CONSTANT,
        knob="SIZE",
    ),
    Row(
        "set_defaults",
        ARGUMENTS + "p.add_argument('--batch-size', default=8)\np.set_defaults(batch_size=@64)\n"
        "l = DataLoader(d, p.parse_args().batch_size)\n",
        KnobKind.ARGPARSE_DEFAULT,
    ),
    Row(
        "dataclass",
        "@dataclass\nclass C:\n    lr: float = 1e-3\n    batch_size: int = @64\n"
        "c = C()\nl = DataLoader(d, c.batch_size)\n",
        KnobKind.DATACLASS_FIELD,
    ),
    Row(
        "dataclass field()",
        "@dataclass\nclass C:\n    batch_size: int = field(default=@64)\nl = DataLoader(d, C().batch_size)\n",
        KnobKind.DATACLASS_FIELD,
    ),
    Row(
        "dataclass constructor",
        "@dataclass\nclass C:\n    batch_size: int = 8\nc = C(batch_size=@64)\nl = DataLoader(d, c.batch_size)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "dict display",
        "cfg = {'lr': 1, 'batch_size': @64}\nl = DataLoader(d, batch_size=cfg['batch_size'])\n",
        KnobKind.DICT_ENTRY,
    ),
    Row("dict call", "cfg = dict(bs=@64)\nl = DataLoader(d, cfg['bs'])\n", KnobKind.DICT_ENTRY, knob="bs"),
    Row("nested dict", "c = {'t': {'b': @64}}\nl = DataLoader(d, c['t']['b'])\n", KnobKind.DICT_ENTRY),
    Row("dict get", "c = {'b': @64}\nl = DataLoader(d, c.get('b', 8))\n", KnobKind.DICT_ENTRY),
    Row("kwargs", "kw = {'batch_size': @64}\nl = DataLoader(d, **kw)\n", KnobKind.DICT_ENTRY),
    Row(
        "kwargs updated",
        "kw = {}\nmore = {'batch_size': @64}\nkw.update(more)\nl = DataLoader(d, **kw)\n",
        KnobKind.DICT_ENTRY,
    ),
    Row("item assigned", "c = {}\nc['b'] = @64\nl = DataLoader(d, c['b'])\n", KnobKind.DICT_ENTRY),
    Row(
        "nested function",
        "def outer():\n    bs = @64\n    def inner():\n        return DataLoader(d, batch_size=bs)\n"
        "    return inner()\n",
        KnobKind.CONSTANT,
    ),
    Row(
        "class attribute",
        "class Config:\n    BATCH = @64\nl = DataLoader(d, batch_size=Config.BATCH)\n",
        KnobKind.CONSTANT,
        knob="BATCH",
    ),
    Row(
        "self attribute",
        "class T:\n    def __init__(self, bs=8):\n        self.bs = bs\n"
        "    def loader(self):\n        return DataLoader(d, batch_size=self.bs)\nT(bs=@64).loader()\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "inherited attribute",
        "class A:\n    bs = @64\nclass T(A):\n"
        "    def loader(self):\n        return DataLoader(d, batch_size=self.bs)\n",
        KnobKind.CONSTANT,
    ),
    Row("tuple", "N, H = @64, 10\nl = DataLoader(d, batch_size=N)\n", KnobKind.CONSTANT, knob="N"),
    Row("walrus", "l = DataLoader(d, batch_size=(n := @64))\n", KnobKind.CALL_ARGUMENT),
    Row("int()", "l = DataLoader(d, batch_size=int(@64))\n", KnobKind.CALL_ARGUMENT),
    Row("last assignment", "B = 8\nB = @64\nl = DataLoader(d, B)\nB = 9\n", KnobKind.CONSTANT),
    Row("brackets", "B = (@64)\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row(
        "evaluation loader first",
        "test_loader = DataLoader(a, batch_size=1000)\ntrain_loader = DataLoader(b, batch_size=@64)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "evaluation told by the data set",
        "a = DataLoader(test_set, batch_size=1000)\nb = DataLoader(train_set, batch_size=@64)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "evaluation told by a word run together",
        "testloader = DataLoader(a, batch_size=1000)\ntrainloader = DataLoader(b, batch_size=@64)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "evaluation told by the data set's keyword",
        "a = DataLoader(dataset=testset, batch_size=1000)\nb = DataLoader(dataset=x, batch_size=@64)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row("form feed", "import x\n\fB = @64\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row("form feed in a line", "x = 1 #\f a\nB = @64\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row("line continuation", "B = \\\n    @64\nl = DataLoader(d, B)\n", KnobKind.CONSTANT),
    Row("semicolons", "a = 1; B = @64; l = DataLoader(d, B); c = 2\n", KnobKind.CONSTANT),
    Row("no newline at the end", "l = DataLoader(d, batch_size=@64)", KnobKind.CALL_ARGUMENT),
    Row(
        "after a text over lines", "s = '''\n\u2028é\n'''; B = @64; l = DataLoader(d, B)\n", KnobKind.CONSTANT
    ),
    Row(
        "batch sampler",
        "l = DataLoader(d, batch_sampler=BatchSampler(s, @64, False))\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "trainer",
        "a = TrainingArguments(out, per_device_train_batch_size=@64, per_device_eval_batch_size=8)\n",
        KnobKind.CALL_ARGUMENT,
        knob="per_device_train_batch_size",
    ),
    Row(
        "no loader: a tensor's shape",
        "batch_size = @64\nseed = 1\nx = torch.randint(len(d) - 8, (batch_size,))\n",
        KnobKind.CONSTANT,
    ),
    Row(
        "no loader: a range",
        "bs = @64\nfor i in range(0, n, bs):\n    step(x[i:i + bs])\n",
        KnobKind.CONSTANT,
    ),
    Row("no loader: a default", "def get_batch(batch_size=@64):\n    pass\n", KnobKind.PARAMETER_DEFAULT),
    Row("no loader: first dimension", "N, D = @64, 10\nx = torch.randn(N, D)\n", KnobKind.CONSTANT, knob="N"),
    Row(
        "spawned processes",
        "def main(rank, size):\n    l = DataLoader(d, batch_size=size)\nmp.spawn(main, args=(@64,), nprocs=2)\n",
        KnobKind.CALL_ARGUMENT,
    ),
    Row(
        "click",
        "@click.command()\n@click.option('--batch-size', default=@64)\ndef main(batch_size):\n"
        "    l = DataLoader(d, batch_size=batch_size)\nmain()\n",
        KnobKind.ARGPARSE_DEFAULT,
    ),
]


def prepared(row: Row) -> tuple[bytes, int]:
    """The file, and where in its text the literal is."""
    # Decorators hold an ``@`` of their own: the mark is the one before a digit.
    place = next(i for i, c in enumerate(row.source) if c == "@" and row.source[i + 1].isdigit())
    source = row.source[:place] + row.source[place + 1 :]
    return source.encode(row.encoding), place - source.startswith("\ufeff")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_found_and_changed_without_a_trace(row: Row) -> None:
    data, place = prepared(row)
    text, found = search(data)
    knob = found.best
    assert knob is not None
    assert text.offset(knob.span.line, knob.span.column) == place
    assert (knob.value, knob.kind, knob.text) == (row.value, row.kind, row.text or str(row.value))
    assert not row.knob or knob.name == row.knob
    assert found.refusal == ""

    edit = with_value(knob, text, 7)
    changed = text.apply((edit,))
    before, after = text.text[:place], text.text[place + len(knob.text) :]
    assert changed.text == before + row.after + after
    assert changed.encode().startswith(data[: len(data) - len(after.encode(row.encoding)) - len(knob.text)])
    compile(changed.encode(), SCRIPT, "exec", dont_inherit=True)
    _, again = search(changed.encode())
    assert again.best is not None
    assert again.best.value == 7

    end = SourceSpan(
        SCRIPT, edit.span.line, edit.span.column, edit.span.line, edit.span.column + len(row.after)
    )
    assert changed.apply((TextEdit(end, edit.new_text, edit.old_text),)).encode() == data


def test_a_named_size_comes_after_that_of_a_loader() -> None:
    """The loader may be in a function that the script never calls; the run shows which size is in force."""
    source = (
        ARGUMENTS + "p.add_argument('--batch-size', default=128)\na = p.parse_args()\n"
        "def other(batch_size=64):\n    return DataLoader(d, batch_size)\n"
        "x = data.sample(a.batch_size)\nvalid_batch_size = 32\ncheck(valid_batch_size)\n"
    )
    _, found = search(source)
    assert [knob.value for knob in found.candidates] == [64, 128]


def test_underscores_stay_where_a_number_is_long_enough() -> None:
    text, found = search("B = 1_024\nl = DataLoader(d, B)\n")
    assert found.best is not None
    assert with_value(found.best, text, 4096).new_text == "4_096"


REFUSED = [
    ("B = 4 * world_size\nl = DataLoader(d, B)\n", "4 * world_size"),
    ("B = 64\nl = DataLoader(d, batch_size=B // 2)\n", "B // 2"),
    ("B = 64\nB //= 2\nl = DataLoader(d, batch_size=B)\n", "B //= 2"),
    (
        ARGUMENTS + "p.add_argument('--batch-size', default=64)\na = p.parse_args()\n"
        "a.batch_size = a.batch_size // n\nl = DataLoader(d, a.batch_size)\n",
        "a.batch_size // n",
    ),
    ("for B in (16, 32):\n    l = DataLoader(d, batch_size=B)\n", "for B in (16, 32)"),
    ("SIZE = 64\nl = DataLoader(d, batch_size=SIZE)\nm = nn.Linear(SIZE, 10)\n", "nn.Linear(SIZE, 10)"),
    ("SIZE = 64\nH = SIZE\nl = DataLoader(d, SIZE)\nm = nn.Linear(10, H)\n", "nn.Linear(10, H)"),
    ("SIZE = 64\nl = DataLoader(d, SIZE)\nm = Net(hidden_size=SIZE * 2)\n", "hidden_size"),
    ("SIZE = 64\nl = DataLoader(d, SIZE)\nt = transforms.Resize((SIZE, SIZE))\n", "Resize"),
    ("N = 64\nl = DataLoader(d, N)\nfor epoch in range(N):\n    pass\n", "range(N)"),
    (
        (
            "SIZE = 64\nclass Net:\n    def __init__(self, width):\n        self.layer = nn.Linear(width, 2)\n"
            "l = DataLoader(d, SIZE)\nm = Net(SIZE)\n"
        ),
        "nn.Linear(width, 2)",
    ),
]


@pytest.mark.parametrize(("source", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_computed_and_shared_values_say_so(source: str, said: str) -> None:
    _, found = search("import torch.nn as nn\n" + source)
    assert found.best is not None
    assert said in found.refusal


SHARED_BY_RIGHT = [
    "l = DataLoader(d, batch_size)\nval_loader = DataLoader(v, batch_size=batch_size)\n",
    "l = DataLoader(d, batch_size)\nsteps = len(d) // batch_size\nprint(total / batch_size)\n",
    "l = DataLoader(d, batch_size)\nh = model.init_hidden(batch_size)\nz = torch.randn(batch_size, 10)\n",
    "l = DataLoader(d, batch_size)\nmask = torch.eye(batch_size)\nx = x.view(batch_size, -1)\n",
    "l = DataLoader(d, batch_size)\nfor i in range(0, n, batch_size):\n    pass\n",
    "def f(n):\n    return torch.zeros(n, 3)\nl = DataLoader(d, batch_size)\nf(batch_size)\n",
]


@pytest.mark.parametrize("source", SHARED_BY_RIGHT)
def test_what_follows_the_batch_size_by_right_is_no_conflict(source: str) -> None:
    _, found = search("batch_size = 64\n" + source)
    assert found.best is not None
    assert found.refusal == ""


def test_a_change_that_may_not_happen_does_not_make_it_computed() -> None:
    source = (
        ARGUMENTS + "p.add_argument('--batch-size', default=64)\na = p.parse_args()\n"
        "if a.distributed:\n    a.batch_size = int(a.batch_size / n)\nl = DataLoader(d, a.batch_size)\n"
    )
    _, found = search(source)
    assert found.best is not None
    assert (found.best.value, found.refusal) == (64, "")


@pytest.mark.parametrize(
    ("source", "others", "file"),
    [
        ("from config import BATCH\nl = DataLoader(d, BATCH)\n", {"config.py": "BATCH = 64\n"}, "config.py"),
        ("import config\nl = DataLoader(d, config.BATCH)\n", {"config.py": "BATCH = 64\n"}, "config.py"),
        ("import pkg.c as c\nl = DataLoader(d, c.B)\n", {"pkg/c.py": "B = 64\n"}, "pkg/c.py"),
        ("from pkg import c\nl = DataLoader(d, c.B)\n", {"pkg/c.py": "B = 64\n"}, "pkg/c.py"),
        ("from config import *\nl = DataLoader(d, BATCH)\n", {"config.py": "BATCH = 64\n"}, "config.py"),
        (
            "from pkg.data import loader\nloader(64)\n",
            {"pkg/__init__.py": "", "pkg/data.py": "def loader(n=8):\n    return DataLoader(d, n)\n"},
            "train.py",
        ),
        (
            "from pkg import C\nfrom pkg.data import loader\nloader(C())\n",
            {
                "pkg/__init__.py": "from .config import C\n",
                "pkg/config.py": "class C:\n    n: int = 64\n",
                "pkg/data.py": "def loader(c):\n    return DataLoader(d, c.n)\n",
            },
            "pkg/config.py",
        ),
    ],
)
def test_other_files_of_the_program(source: str, others: dict[str, str], file: str) -> None:
    _, found = search(source, (), others)
    assert found.best is not None
    assert (found.best.value, found.best.span.file) == (64, f"/project/{file}")


def test_a_module_that_does_not_parse_does_not_stop_the_search() -> None:
    _, found = search("import broken\nl = DataLoader(d, 64)\n", (), {"broken.py": "def (\n"})
    assert found.best is not None


@pytest.mark.parametrize(
    "source",
    [
        "",
        "x = 1\n",
        "l = DataLoader(d)\n",
        "l = DataLoader(d, batch_size=None)\n",
        "l = DataLoader(d, batch_size=n)\n",
    ],
)
def test_nothing_found_says_what_was_tried(source: str) -> None:
    _, found = search(source)
    assert found.best is None
    assert any("DataLoader" in words for words in found.tried)


@pytest.mark.parametrize(
    "source",
    [
        "a = b\nb = a\nl = DataLoader(d, batch_size=a)\n",
        "def f(n):\n    return f(n)\nl = DataLoader(d, batch_size=f(f))\n",
        "class C:\n    def __init__(self):\n        self.n = self.n\nl = DataLoader(d, batch_size=C().n)\n",
        "class A(A):\n    pass\nl = DataLoader(d, batch_size=A.n)\n",
        "d = {**d}\nl = DataLoader(x, **d)\n",
    ],
)
def test_circles_come_to_an_end(source: str) -> None:
    _, found = search(source)
    assert found.best is None


def test_a_script_that_is_not_python_is_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        search("l = DataLoader(\n")
    assert caught.value.line == 1


def test_a_changed_file_is_refused() -> None:
    text, found = search("B = 64\nl = DataLoader(d, B)\n")
    assert found.best is not None
    with pytest.raises(RewriteRefused, match="changed"):
        with_value(found.best, SourceText.of(SCRIPT, "B = 32\nl = DataLoader(d, B)\n"), 7)
    with pytest.raises(RewriteRefused, match="not possible"):
        with_value(found.best, text, 0)
