"""Blocks go under checkpoint where the model's own code calls them plainly; what may not be "
"repeated is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine

SCRIPT = "/project/train.py"
BLOCK = "class Block(nn.Module):\n    def forward(self, x):\n        return x + self.fc(x)\n"
IMPORT = "from torch.utils.checkpoint import checkpoint\n"


def held(path: str, class_name: str, line: int | None = None, **options) -> ModuleFact:
    place = CodeLine(SCRIPT, line) if line else None
    return ModuleFact(path, class_name, line is None, 4, True, options, class_line=place)


@pytest.fixture
def model(workshop):
    """A script with a block class of 3 lines behind its first line, and a model that holds three blocks."""

    def make(
        forward: str,
        *,
        block: str = BLOCK,
        names=("blocks.0", "blocks.1", "blocks.2"),
        rest: str = "",
        options=None,
    ):
        text = f"from torch import nn\n{block}class Net(nn.Module):\n{forward}{rest}"
        lines = text.splitlines()
        block_line = next(n for n, line in enumerate(lines, 1) if "def forward" in line)
        net_line = next(n for n, line in enumerate(lines, 1) if "def forward" in line and n > block_line)
        facts = [held("Net", "Net", net_line)]
        for name in names:
            facts += [
                held(f"Net.{name}", "Block", block_line),
                held(f"Net.{name}.fc", "Linear", **(options or {})),
            ]
        if "." in names[0]:
            facts.append(held("Net.blocks", "ModuleList"))
        shop = workshop(text)
        trace = replace(shop.profile.trace, modules=tuple(fact.path for fact in facts))
        return replace(shop, profile=replace(shop.profile, modules=tuple(facts), trace=trace))

    return make


def expected(forward: str, block: str = BLOCK) -> str:
    return f"from torch import nn\n{IMPORT}{block}class Net(nn.Module):\n{forward}"


LOOP = (
    "    def forward(self, x):\n        for block in self.blocks:\n            x = block(x)\n"
    "        return x\n"
)
REWRITTEN = {
    "loop": (
        LOOP,
        "checkpointing",
        LOOP.replace("block(x)", "checkpoint(block, x, use_reentrant=False)"),
    ),
    "loop, two of three": (
        LOOP,
        "checkpointing=2",
        LOOP.replace("for block in self.blocks", "for index, block in enumerate(self.blocks)").replace(
            "block(x)", "checkpoint(block, x, use_reentrant=False) if index < 2 else block(x)"
        ),
    ),
    "counted loop": (
        (
            "  def forward(self, h):\n    for i, layer in enumerate(self.blocks):\n"
            "      h = layer(h, mask=m)  # é\n    return h\n"
        ),
        "checkpointing=1",
        (
            "  def forward(self, h):\n    for i, layer in enumerate(self.blocks):\n"
            "      h = checkpoint(layer, h, mask=m, use_reentrant=False) if i < 1 else layer(h, "
            "mask=m)  # é\n    return h\n"
        ),
    ),
    "beside others": (
        (
            "    def forward(self, x):\n        for block, other in zip(self.blocks, self.others):\n"
            "            x = other(block(x))\n        return x\n"
        ),
        "checkpointing",
        (
            "    def forward(self, x):\n        for block, other in zip(self.blocks, self.others):\n"
            "            x = other(checkpoint(block, x, use_reentrant=False))\n        return x\n"
        ),
    ),
    "some beside others": (
        (
            "    def forward(self, x):\n        for other, block in zip(self.others, self.blocks):\n"
            "            x = block(other)\n        return x\n"
        ),
        "checkpointing=1",
        (
            "    def forward(self, x):\n"
            "        for index, (other, block) in enumerate(zip(self.others, self.blocks)):\n"
            "            x = checkpoint(block, other, use_reentrant=False) if index < 1 else block(other)\n"
            "        return x\n"
        ),
    ),
    "counted beside others": (
        (
            "    def forward(self, x):\n        for n, (other, block) in enumerate(zip(self.others, self.blocks)):\n"
            "            x = block(other)\n        return x\n"
        ),
        "checkpointing=2",
        (
            "    def forward(self, x):\n        for n, (other, block) in enumerate(zip(self.others, self.blocks)):\n"
            "            x = checkpoint(block, other, use_reentrant=False) if n < 2 else block(other)\n"
            "        return x\n"
        ),
    ),
    "as a whole": (
        "    def forward(self, x):\n        x = self.blocks(x)\n        return x\n",
        "checkpointing",
        (
            "    def forward(self, x):\n        for block in self.blocks:\n"
            "            x = checkpoint(block, x, use_reentrant=False)\n        return x\n"
        ),
    ),
    "as a whole, of something": (
        "    def forward(self, x):\n        y = self.blocks(self.stem(x))\n        return y\n",
        "checkpointing=1",
        (
            "    def forward(self, x):\n        y = self.stem(x)\n"
            "        for index, block in enumerate(self.blocks):\n"
            "            y = checkpoint(block, y, use_reentrant=False) if index < 1 else block(y)\n"
            "        return y\n"
        ),
    ),
    "by index": (
        (
            "    def forward(self, x):\n        for i in range(3):\n"
            "            x = x + self.blocks[i](x)\n        return x\n"
        ),
        "checkpointing=2",
        (
            "    def forward(self, x):\n        for i in range(3):\n"
            "            x = x + (checkpoint(self.blocks[i], x, use_reentrant=False) if i < 2 else "
            "self.blocks[i](x))\n"
            "        return x\n"
        ),
    ),
    "as a whole, over several lines": (
        "    def forward(self, x):\n        x = self.blocks(\n            x,\n        )\n        return x\n",
        "checkpointing",
        (
            "    def forward(self, x):\n        for block in self.blocks:\n"
            "            x = checkpoint(block, x, use_reentrant=False)\n        return x\n"
        ),
    ),
    "as a whole, of something else, behind another statement": (
        "    def forward(self, x):\n        y = 1; z = self.blocks(x * 2); return z\n",
        "checkpointing",
        (
            "    def forward(self, x):\n        y = 1\n        z = x * 2\n        for block in self.blocks:\n"
            "            z = checkpoint(block, z, use_reentrant=False)\n        return z\n"
        ),
    ),
    "a comment before the closing bracket": (
        LOOP.replace("block(x)", "block(\n                x  # as it is\n            )"),
        "checkpointing",
        LOOP.replace(
            "block(x)",
            "checkpoint(block,\n                x,  # as it is\n                use_reentrant=False,\n            )",
        ),
    ),
    "in another method": (
        (
            "    def forward(self, x):\n        return self.features(x)\n"
            "    def features(self, x):\n        for block in self.blocks:\n"
            "            x, w = block(\n                x,\n            )\n"
            "        return x\n"
        ),
        "checkpointing",
        (
            "    def forward(self, x):\n        return self.features(x)\n"
            "    def features(self, x):\n        for block in self.blocks:\n"
            "            x, w = checkpoint(block,\n                x,\n"
            "                use_reentrant=False,\n            )\n        return x\n"
        ),
    ),
    "tabs": (
        "\tdef forward(self, x):\n\t\tfor b in self.blocks: x = b(x)\n\t\treturn x\n",
        "checkpointing",
        (
            "\tdef forward(self, x):\n"
            "\t\tfor b in self.blocks: x = checkpoint(b, x, use_reentrant=False)\n\t\treturn x\n"
        ),
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_under_checkpoint(model, name: str, newline: str) -> None:
    before, asked, after = REWRITTEN[name]
    shop = model(before)
    shop = replace(shop, files={SCRIPT: shop.files[SCRIPT].replace("\n", newline)})
    after = expected(after).replace("\n", newline)
    assert shop.edited(asked) == after
    compile(after, "train.py", "exec", dont_inherit=True)
    again = replace(shop, files={SCRIPT: after}, profile=_moved(shop.profile))
    assert again.plan(asked).edits == ()


@pytest.mark.parametrize("name", ["beside others", "some beside others", "counted beside others"])
def test_loops_over_several_lists_are_restored(model, name: str) -> None:
    before, asked, _ = REWRITTEN[name]
    shop = model(before)
    made = replace(shop, files={SCRIPT: shop.edited(asked)}, profile=_moved(shop.profile))
    assert made.after(made.without("checkpointing")).files[SCRIPT] == shop.files[SCRIPT]


def _moved(profile):
    """The profile of the rewritten file: one line more stands before everything."""
    facts = tuple(
        fact
        if fact.class_line is None
        else replace(fact, class_line=CodeLine(SCRIPT, fact.class_line.line + 1))
        for fact in profile.modules
    )
    return replace(profile, modules=facts, sources=())


def test_held_one_by_one(model) -> None:
    forward = "    def forward(self, x):\n        x = self.first(x)\n        return self.second(x)\n"
    shop = model(forward, names=("first", "second"))
    assert shop.edited("checkpointing") == expected(
        "    def forward(self, x):\n        x = checkpoint(self.first, x, use_reentrant=False)\n"
        "        return checkpoint(self.second, x, use_reentrant=False)\n"
    )
    assert "checkpoint(self.second" not in shop.edited("checkpointing=1")


CHANGING = {
    "x += self.fc(x); return x": "in place",
    "x.relu_(); return x": "in place",
    "x[0] = 1; return x": "writes into",
    "self.seen = x; return x": "sets `self.seen`",
    "self.count += 1; return x": "changes `self.count`",
    "return F.relu(x, inplace=True)": "in place",
    "yield x": "generator",
}


@pytest.mark.parametrize("body", CHANGING)
def test_blocks_that_must_not_run_twice(model, body: str) -> None:
    shop = model(LOOP, block=f"class Block(nn.Module):\n    def forward(self, x):\n        {body}\n")
    assert CHANGING[body] in shop.reason("checkpointing")


def test_what_is_bound_anew_may_change(model) -> None:
    body = (
        "class Block(nn.Module):\n    def forward(self, x):\n        y = self.fc(x)\n"
        "        y += x\n        return y.relu_()\n"
    )
    assert "checkpoint(block, x" in model(LOOP, block=body).edited("checkpointing")
    assert "in place" in model(LOOP, options={"inplace": True}).reason("checkpointing")


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        ("        return self.head(self.blocks(x))\n", "larger expression"),
        (
            "        for block in self.blocks:\n            x = block(block(x))\n        return x\n",
            "more than once",
        ),
        (
            "        for block in self.blocks:\n            x = block(x, past_key_value)\n        return x\n",
            "happen twice",
        ),
        (
            "        for block in self.blocks:\n            x = block(x, **extra)\n        return x\n",
            "takes for itself",
        ),
        (
            "        for block in self.blocks:\n            x = block(x, debug=1)\n        return x\n",
            "takes for itself",
        ),
        (
            "        for block in self.blocks:\n            x = run(block)\n        return x\n",
            "in no recognised way",
        ),
        ("        x = self.blocks(x)\n        return self.blocks(x)\n", "iterated more than once"),
        (
            "        for a, b, c in self.blocks:\n            x = a(x)\n        return x\n",
            "`for (a, b, c) in …` unpacks the blocks",
        ),
        ("        x = self.blocks(  # all\n            x)\n        return x\n", "has a comment inside"),
        ("        y = self.blocks(f(\n            x))\n        return y\n", "goes over several lines"),
        ("        return go(self)\n", "in a recognised way"),
    ],
)
def test_refused_with_the_reason_and_what_to_write(model, forward: str, said: str) -> None:
    shop = model("    def forward(self, x):\n" + forward)
    assert said in shop.reason("checkpointing")
    assert "use_reentrant=False" in shop.plan("checkpointing").refused[0].snippet


def test_a_value_that_is_none_is_refused(model) -> None:
    assert (
        model(LOOP)
        .reason("checkpointing=some")
        .endswith("Give all, a number of blocks, or a target for the peak memory.")
    )
    assert "some" in model(LOOP).reason("checkpointing=some")


def test_models_of_libraries(workshop) -> None:
    source = (
        "import torch\nfrom transformers import AutoModel\n"
        "model = AutoModel.from_pretrained('m').to('cuda')\n"
    )
    source += "o = torch.optim.Adam(model.parameters())\n"
    edited = workshop(source, optimizers=(("Adam", 4),)).edited("checkpointing")
    assert edited == source.replace("'cuda')\n", "'cuda')\nmodel.gradient_checkpointing_enable()\n")
    assert workshop(edited, optimizers=(("Adam", 5),)).plan("checkpointing").edits == ()
    timm = source.replace("from transformers import AutoModel", "import timm").replace(
        "AutoModel.from_pretrained('m')", "timm.create_model('m')"
    )
    assert "model.set_grad_checkpointing()\n" in workshop(timm, optimizers=(("Adam", 4),)).edited(
        "checkpointing"
    )
    named = timm.replace("import timm", "from timm import create_model").replace(
        "timm.create_model", "create_model"
    )
    named = named.replace(".to('cuda')", "")
    assert "model.set_grad_checkpointing()\n" in workshop(named, optimizers=(("Adam", 4),)).edited(
        "checkpointing"
    )
    trainer = "from transformers import TrainingArguments as A\nA('out')\n"
    assert workshop(trainer).edited("checkpointing") == trainer.replace(
        "'out'", "'out', gradient_checkpointing=True"
    )


def test_blocks_of_other_peoples_code(model, workshop) -> None:
    assert "No blocks" in workshop("import torch\n").reason("checkpointing")
    shop = model(LOOP)
    facts = tuple(replace(fact, class_line=None) for fact in shop.profile.modules)
    shop = replace(shop, profile=replace(shop.profile, modules=facts))
    assert "in the program's own code" in shop.reason("checkpointing")


def test_a_call_over_several_lines_is_not_made_a_choice(model) -> None:
    forward = (
        "    def forward(self, x):\n        for b in self.blocks:\n            x = b(\n                x)\n"
    )
    assert "goes over several lines" in model(forward).reason("checkpointing=1")


def test_a_block_with_a_name_is_called_once(model) -> None:
    names = ("first", "second")
    forward = (
        "    def forward(self, x):\n        x = self.first(self.first(x))\n        return self.second(x)\n"
    )
    assert "`self.first` is called more than once" in model(forward, names=names).reason("checkpointing")
    forward = "    def forward(self, x):\n        return self.second(self.rest(x))\n"
    assert "`self.first` is called in no recognised way" in model(forward, names=names).reason(
        "checkpointing"
    )
