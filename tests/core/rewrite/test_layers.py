"""Changes in the calls that make layers: sparse gradients of embeddings, padded vocabularies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine, OperatorShape, Phase, Record, RecordKind

SCRIPT = "/project/train.py"
ROWS, WIDTH = 50_257, 64
TAIL = "o = torch.optim.SGD(m.parameters(), lr=0.1)\n"


def embedding(line=None, name="Embedding"):
    options = {"num_embeddings": ROWS, "embedding_dim": WIDTH, "sparse": False}
    place = CodeLine(SCRIPT, line) if line else None
    return ModuleFact("Net.table", name, True, ROWS * WIDTH, True, options, created_line=place)


def head(line=None):
    options = {"in_features": WIDTH, "out_features": ROWS}
    place = CodeLine(SCRIPT, line) if line else None
    return ModuleFact("Net.head", "Linear", True, ROWS * (WIDTH + 1), True, options, created_line=place)


def with_layers(workshop, source, *layers, optimizer=("SGD", None)):
    """A run in which each iteration looks up a hundred rows."""
    made = workshop(source, optimizers=(optimizer,))
    trace = made.profile.trace
    shape = OperatorShape("aten::embedding", ((ROWS, WIDTH), (100,)), ("float32", "int64"))
    lookups = tuple(
        Record(
            "aten::embedding", RecordKind.OPERATOR, Phase.FORWARD, "main", mark.index, mark.start_us, 1.0,
            module=1, shape=0,
        )
        for mark in trace.iterations
    )  # fmt: skip
    seen = replace(trace, modules=("Net", "Net.table"), shapes=(shape,), records=(*trace.records, *lookups))
    return replace(made, profile=replace(made.profile, trace=seen, modules=layers))


SPARSE = [
    (
        "import torch\nfrom torch import nn\nm = nn.Embedding(50257, 64)\n",
        "import torch\nfrom torch import nn\nm = nn.Embedding(50257, 64, sparse=True)\n",
    ),
    (
        "import torch\nm = torch.nn.Embedding(\n    50257,\n    64,\n    padding_idx=0,  # none\n)\n",
        "import torch\nm = torch.nn.Embedding(\n    50257,\n    64,\n    padding_idx=0,  # none\n    sparse=True,\n)\n",
    ),
    (
        "import torch\nfrom torch.nn import Embedding as E\nm = E(50257, 64, sparse=False)\n",
        "import torch\nfrom torch.nn import Embedding as E\nm = E(50257, 64, sparse=True)\n",
    ),
    (
        "import torch\nfrom torch.nn import Embedding\nm = Embedding(50257, 64, None, None, 2.0, False, False)\n",
        "import torch\nfrom torch.nn import Embedding\nm = Embedding(50257, 64, None, None, 2.0, False, True)\n",
    ),
    (
        "import torch\nfrom torch import nn\nm = nn.Embedding(50257, 64, **{'padding_idx': 0})\n",
        "import torch\nfrom torch import nn\nm = nn.Embedding(50257, 64, sparse=True, **{'padding_idx': 0})\n",
    ),
    (
        "import torch\r\nimport torch.nn as N\r\nm = N.Embedding(50257, 64)\r\n",
        "import torch\r\nimport torch.nn as N\r\nm = N.Embedding(50257, 64, sparse=True)\r\n",
    ),
]


@pytest.mark.parametrize(("before", "after"), SPARSE)
def test_sparse_gradients_are_asked_for_where_the_table_is_made(workshop, before, after):
    assert with_layers(workshop, before + TAIL, embedding()).edited("sparse_embedding") == after + TAIL
    assert (
        with_layers(workshop, before + TAIL, embedding(3 if "(\n" not in before else 2)).edited(
            "sparse_embedding"
        )
        == after + TAIL
    )
    assert with_layers(workshop, after + TAIL, embedding()).plan("sparse_embedding").edits == ()


MADE = "import torch\nfrom torch import nn\nm = nn.Embedding(50257, 64)\n"


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        (MADE + "o = torch.optim.Adam(m.parameters())\n", "Adam", "Adam takes no sparse"),
        (MADE + "o = torch.optim.SGD(m.parameters(), lr=1, weight_decay=1e-4)\n", "SGD", "`weight_decay="),
        (MADE + "o = torch.optim.SGD(m.parameters(), 1, 0.9)\n", "SGD", "`momentum="),
        (MADE + "o = torch.optim.Adagrad(m.parameters(), 1, 0, decay)\n", "Adagrad", "`weight_decay="),
        (MADE + "o = torch.optim.SGD(m.parameters(), **options)\n", "SGD", "`**options`"),
        (MADE + "o = torch.optim.SGD([{'params': p, 'weight_decay': d}], lr=1)\n", "SGD", "may be set"),
        (MADE + "o = torch.optim.SGD(m.parameters(), lr=1, fused=True)\n", "SGD", "`fused=True`"),
        (MADE.replace("64)", "64, sparse=flag)") + TAIL, "SGD", "computed when the script runs"),
        (
            MADE.replace("nn.Embedding(", "nn.Embedding.from_pretrained(") + TAIL,
            "SGD",
            "No call of the program",
        ),
        (MADE + "n = nn.Embedding(9, 9)\n" + TAIL, "SGD", "More than one call"),
    ],
)
def test_no_sparse_gradients_where_something_forbids_them(workshop, source, name, said):
    shop = with_layers(workshop, source, embedding(), optimizer=(name, None))
    assert said in shop.reason("sparse_embedding")


def test_what_is_not_known_to_gain_is_refused_with_a_snippet(workshop):
    shop = with_layers(workshop, MADE + TAIL)
    planned = shop.plan("sparse_embedding")
    assert "sparse=True" in planned.refused[0].snippet


LITERALS = "from torch import nn\nm = nn.Embedding(50257, 64)\nh = nn.Linear(64, 50257, bias=False)\n"
NAMED = """\
from torch import nn
VOCAB = 50257
class Net(nn.Module):
    def __init__(self, vocab):
        self.table = nn.Embedding(vocab, 64)
        self.head = nn.Linear(64, vocab)
    def forward(self, x):
        return self.head(self.table(x))
net = Net(VOCAB)
logits = net(x).view(-1, VOCAB)
"""
CONFIG = """\
from dataclasses import dataclass
from torch import nn
@dataclass
class Config:
    vocab_size: int = 50257
class Net(nn.Module):
    def __init__(self, config):
        self.table = nn.Embedding(config.vocab_size, 64)
        self.head = nn.Linear(64, config.vocab_size)
net = Net(Config())
"""


@pytest.mark.parametrize(
    ("before", "value", "changed"),
    [
        (LITERALS, "64", 2),
        (LITERALS, "8", 2),
        (NAMED, "64", 1),
        (NAMED.replace("50257", "50_257"), "128", 1),
        (CONFIG, "64", 1),
        (NAMED.replace("Linear(64, vocab)", "Linear(64, out_features=vocab)"), "64", 1),
    ],
)
def test_the_vocabulary_is_padded_where_it_is_set(workshop, before, value, changed):
    after = {"8": "50264", "64": "50304", "128": "50304"}[value]
    shop = with_layers(workshop, before, embedding(), head())
    text = shop.edited(f"pad_to_multiple={value}")
    assert text.count(after) == changed
    assert text == before.replace("50257", after).replace("50_257", after)
    assert with_layers(workshop, text, embedding(), head()).plan(f"pad_to_multiple={value}").edits == ()


COMPUTED = """\
from torch import nn
number = len(words)
class Net(nn.Module):
    def __init__(self, size):
        self.table = nn.Embedding(size, 64)
        self.head = nn.Linear(64, size, bias=False)  # scores
    def forward(self, x):
        return self.head(self.table(x))
net = Net(number)
"""
OPTION = """\
from torch import nn
import argparse
p = argparse.ArgumentParser()
p.add_argument('--vocab', type=int, default=50257)
n = p.parse_args().vocab
m = nn.Embedding(n, 64)
h = nn.Linear(64, n)
"""
MORE = COMPUTED.replace("(size,", "(size + 1,").replace("64, size", "64, size + 1")
SETTINGS = """\
from torch import nn
settings = dict(width=64, words=None)
settings["words"] = found["words"] if found else 50257
class Net(nn.Module):
    def __init__(self, config):
        self.table = nn.Embedding(config["words"], 64)
        self.head = nn.Linear(64, config["words"])
net = Net(settings)
"""


@pytest.mark.parametrize(
    ("before", "given", "padded"),
    [
        (COMPUTED, "size", "-(-size // 64) * 64"),
        (COMPUTED + "data = torch.randint(0, number, (8,))\nprint(f'{number} words')\n", "size", "-(-size // 64) * 64"),
        (COMPUTED + "assert number < 100_000\nlogits = net(x)[..., :number]\n", "size", "-(-size // 64) * 64"),
        (SETTINGS, 'config["words"]', '-(-config["words"] // 64) * 64'),
        (COMPUTED.replace("(number)", "(prime + 2)") + "data = torch.arange(prime)\n", "size", "-(-size // 64) * 64"),
        (MORE, "size + 1", "-(-(size + 1) // 64) * 64"),
        (OPTION, "n", "-(-n // 64) * 64"),
        (NAMED.replace("50257", "50000 + 257").replace(".view(-1, VOCAB)", ""), "vocab", "-(-vocab // 64) * 64"),
    ],
)  # fmt: skip
def test_layers_are_padded_where_no_number_alone_sets_the_vocabulary(workshop, before, given, padded):
    shop = with_layers(workshop, before, embedding(), head())
    text = shop.edited("pad_to_multiple=64")
    assert text == before.replace(f"Embedding({given}", f"Embedding({padded}").replace(
        f"Linear(64, {given}", f"Linear(64, {padded}"
    )
    again = with_layers(workshop, text, embedding(), head())
    assert again.plan("pad_to_multiple=64").edits == ()
    other = again.edited("pad_to_multiple=8")
    assert other == text.replace("64) * 64", "8) * 8")


DRAW = """\
def more(net, x):
    return torch.multinomial(net(x).softmax(-1), 1)
"""


def test_words_that_are_none_are_not_to_be_drawn(workshop):
    small = [replace(one, options={**one.options, name: 65}) for one, name in (
        (embedding(), "num_embeddings"), (head(), "out_features"),
    )]  # fmt: skip
    for source in (COMPUTED, COMPUTED.replace("len(words)", "65")):
        assert with_layers(workshop, source + DRAW, *small).plan("pad_to_multiple=8").edits
        drawing = with_layers(workshop, source + DRAW + "y = more(net, x)\n", *small)
        assert "of which 7 would not be words" in drawing.reason("pad_to_multiple=8")
    # A thousandth of all is put up with.
    assert (
        with_layers(workshop, COMPUTED + DRAW + "y = more(net, x)\n", embedding(), head())
        .plan("pad_to_multiple=8")
        .edits
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (NAMED + "data = torch.randint(0, VOCAB, (8,))\n", "also used in `logits = net(x).view(-1, VOCAB)`"),
        (NAMED + "data = make(VOCAB)\n", "also used in"),
        (
            NAMED.replace("VOCAB = 50257", "VOCAB = len(tokens)"),
            "also used in `logits = net(x).view(-1, VOCAB)`",
        ),
        (NAMED.replace("VOCAB = 50257", "VOCAB = 50000 + 257"), "also used in `logits"),
        (COMPUTED + "logits = net(x).view(-1, len(words))\n", "`len(words)` is also used in"),
        (COMPUTED + "logits = net(x).view(-1, 50257)\n", "has 50257 written out"),
        (COMPUTED + "assert net(x).shape[-1] == number\n", "also used in `assert"),
        (COMPUTED + "weight = torch.ones(number)\n", "also used in `weight"),
        (COMPUTED + "count = number\nhits = F.one_hot(y, num_classes=count)\n", "also used in `hits"),
        (
            COMPUTED.replace("(number)", "(p + 2)") + "hits = scores.view(-1, p + 2)\n",
            "`p + 2` is also used in `hits",
        ),
        (COMPUTED + "logits = net(x).view(8 * number)\n", "also used in `logits"),
        (COMPUTED + "other = Stranger(number)\n", "also used in `other"),
        (LITERALS + "k = nn.Linear(2, 3)\n", "More than one call"),
        (
            OPTION + "print(make(n))\n",
            "also used in `print(make(n))`, which would not agree with padded layers",
        ),
    ],
)
def test_a_vocabulary_that_sets_something_else_stays(workshop, source, said):
    assert said in with_layers(workshop, source, embedding(), head()).reason("pad_to_multiple=64")


def test_other_sizes_are_left_to_the_person(workshop):
    planned = with_layers(workshop, LITERALS, embedding()).plan("pad_to_multiple=64")
    assert "No size of a vocabulary can be padded" in planned.refused[0].reason
    assert "// 64) * 64" in planned.refused[0].snippet
    assert "not a value" in with_layers(workshop, LITERALS, embedding(), head()).reason("pad_to_multiple=x")
