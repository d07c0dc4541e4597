"""Embeddings get a linear layer behind them where nothing needs the one weight, and lose it again byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact

SCRIPT = "/project/train.py"
HEAD = "import torch\nfrom torch import nn\n"
FACTORED = "nn.Sequential(nn.Embedding(1000, 16), nn.Linear(16, 64, bias=False))"


def embedding(name="Embedding"):
    options = {"num_embeddings": 1000, "embedding_dim": 64, "sparse": False}
    return ModuleFact("Net.table", name, True, 64_000, True, options)


def with_layers(workshop, source, *layers):
    made = workshop(source)
    root = ModuleFact("Net", "Net", False, 0, True, {})
    return replace(made, profile=replace(made.profile, modules=(root, *layers)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = nn.Embedding(1000, 64)", f"m = {FACTORED}"),
        (
            "m = nn.Embedding(1000, 64, padding_idx=0)",
            "m = nn.Sequential(nn.Embedding(1000, 16, padding_idx=0), nn.Linear(16, 64, bias=False))",
        ),
        (
            "m = nn.Embedding(embedding_dim=a * 2, num_embeddings=n)",
            "m = nn.Sequential(nn.Embedding(embedding_dim=16, num_embeddings=n), nn.Linear(16, a * 2, bias=False))",
        ),
        (
            "m = nn.Embedding(1000, 64, device=place)",
            "m = nn.Sequential(nn.Embedding(1000, 16, device=place), nn.Linear(16, 64, bias=False, device=place))",
        ),
        ("m = nn.Embedding(\n    1000,\n    (a\n     + b),  # wide\n)", None),
    ],
)
def test_each_call_becomes_two_layers_and_one_again(workshop, before, after):
    source = HEAD + before + "\n"
    shop = with_layers(workshop, source, embedding())
    planned = shop.plan("embedding_factorization=16")
    assert planned.refused == ()
    made = shop.after(planned)
    compile(made.files[SCRIPT], SCRIPT, "exec", dont_inherit=True)
    if after is not None:
        assert made.files[SCRIPT] == HEAD + after + "\n"
    assert made.present("embedding_factorization") == "16"
    assert made.plan("embedding_factorization=16").edits == ()
    assert made.after(made.plan("embedding_factorization=32")).present("embedding_factorization") == "32"
    assert made.after(made.without("embedding_factorization")).files[SCRIPT] == source


def test_a_wider_table_is_written_alike_and_the_notes_tell_how_to_join_both(workshop):
    shop = with_layers(workshop, HEAD + "m = nn.Embedding(1000, 64)\n", embedding())
    planned = shop.plan("embedding_factorization=256")
    assert shop.after(planned).files[SCRIPT] == HEAD + f"m = {FACTORED.replace('16', '256')}\n"
    assert any("from_pretrained" in note for note in planned.notes)


def test_a_layer_that_is_imported_by_name_gets_what_it_needs(workshop):
    source = "from torch.nn import Embedding\nm = Embedding(1000, 64)\n"
    text = with_layers(workshop, source, embedding()).edited("embedding_factorization=16")
    assert "m = torch.nn.Sequential(Embedding(1000, 16), torch.nn.Linear(16, 64, bias=False))" in text
    assert text.count("import torch\n") == 1


@pytest.mark.parametrize(
    ("source", "layer", "said"),
    [
        ("m = nn.Embedding(1000, 64)\n", embedding("EmbeddingBag"), "takes offsets as well as indices"),
        ("m = nn.Embedding(1000, 64, _weight=w)\n", embedding(), "is given its weight"),
        ("m = nn.Embedding(1000, **sizes)\n", embedding(), "the code does not show"),
        ("m = nn.Embedding.from_pretrained(w)\n", embedding(), "No call of the program"),
        (
            "m = nn.Embedding(1000, 64)\nnet.table.weight = net.out.weight\n",
            embedding(),
            "`net.table.weight` is used",
        ),
        ("m = nn.Embedding(1000, 64)\nprint(net.table.embedding_dim)\n", embedding(), "have no such size"),
    ],
)
def test_uses_of_the_one_weight_are_refused(workshop, source, layer, said):
    assert said in with_layers(workshop, HEAD + source, layer).reason("embedding_factorization=16")


def test_no_table_gains_by_its_own_width(workshop):
    shop = with_layers(workshop, HEAD + "m = nn.Embedding(1000, 64)\n", embedding())
    planned = shop.plan("embedding_factorization=64")
    assert "No embedding is known to gain" in planned.refused[0].reason
    assert "nn.EmbeddingBag takes more" in planned.refused[0].snippet


def test_what_a_person_wrote_is_found_and_joined(workshop):
    written = HEAD + "e = nn.Sequential(\n    nn.Embedding(n, 8),\n    nn.Linear(8, d, bias=False),\n)\n"
    shop = workshop(written)
    assert shop.present("embedding_factorization") == "8"
    joined = shop.after(shop.without("embedding_factorization"))
    assert joined.files[SCRIPT] == HEAD + "e = nn.Embedding(n, d)\n"
    taken = workshop(written + "print(e[1])\n").without("embedding_factorization")
    assert "takes one of the two layers that would become one" in taken.refused[0].reason
    assert workshop(written.replace(", bias=False", "")).present("embedding_factorization") is None
    assert workshop(written.replace("nn.Linear(8", "nn.Linear(9")).present("embedding_factorization") is None
