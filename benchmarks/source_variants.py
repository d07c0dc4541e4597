"""Generates training scripts that write the same program in many ways, to try rewrites on them.

The variants differ in line ends, indentation, encoding, imports and aliases, names, the order and place of arguments,
spread arguments, line breaks and comments inside calls, one-line blocks, semicolons, strings over several lines, types,
decorators, factories, and in the place of the loop: in the file, in functions, in a class, under the main guard, or in
a framework. None of them is ever run.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from source_head import drawn_bytes, head
from source_model import Parts, model_classes
from source_style import Block, Style, strewn, written
from source_training import Told, constants, evaluation, iteration, setup
from variant_lines import places_of

from skyline.source.text import SourceText

SCRIPT = "/project/train.py"
_STRUCTURES = ("file", "main", "guard", "class", "epoch function", "step function", "nested")


@dataclass(frozen=True)
class Variant:
    """One script, and the facts that a run of it would report."""

    number: int
    source: SourceText
    structure: str
    optimizer: str
    names: dict[str, str]
    """The names of the script's objects."""
    parts: Parts
    told: Told
    places: dict[str, int]
    """Offsets of the training loop (``loop``), of calls by the called name, and of forward passes by class."""


def variant(number: int) -> Variant:
    """The script with this number. It is always the same, and its choices do not depend on other numbers."""
    style = Style(Random(number))
    style.unit = style.one("    ", "    ", "  ", "\t", "   ", "        ")
    saved = drawn_bytes(style)
    structure = style.one(*_STRUCTURES * 3, "framework")
    style.names = _names(style, structure)
    told = Told(named_workers=style.one(0, 2, 2, 4), seen_softmax=style.often())
    lines = head(style, saved.encoding)
    parts, classes = model_classes(style)
    program = (
        _framework(style, parts, told)
        if structure == "framework"
        else _program(style, structure, parts, told)
    )
    statements = strewn(style, [*constants(style, told), *classes, *program])
    lines += written(style, statements, "")
    text = "".join(line + saved.newlines[at % len(saved.newlines)] for at, line in enumerate(lines))
    if style.rarely():
        text = text.rstrip("\r\n")
    source = SourceText(SCRIPT, text, saved.encoding, saved.mark)
    places = places_of(source, style.names)
    return Variant(number, source, structure, style.names["class"], style.names, parts, told, places)


def _names(style: Style, structure: str) -> dict[str, str]:
    names = {
        "model": style.one("model", "net", "network", *style.wide),
        "loss": style.one("loss", "total_loss", "l"),
        "optimizer": style.one("optimizer", "opt", "optim_"),
        "loader": style.one("loader", "train_loader", "batches"),
        "criterion": style.one("criterion", "loss_fn"),
        "x": style.one("x", "inputs", "images"),
        "y": style.one("y", "targets"),
        "out": style.one("out", "logits", "pred"),
        "device": style.one("device", "dev"),
        "class": style.one("AdamW", "Adam", "SGD", "SGD", "Adagrad"),
        "decorators": style.one("", "@noted"),
    }
    if structure == "class":
        for name in ("model", "optimizer", "loader", "criterion"):
            names[name] = f"self.{names[name]}"
    return names


def _program(style: Style, structure: str, parts: Parts, told: Told) -> list[Any]:
    names = style.names
    made = setup(style, parts, told)
    step = iteration(style)
    before, evaluated = evaluation(style, told) if style.often() else ([], [])
    target = style.one(f"{names['x']}, {names['y']}", f"i, ({names['x']}, {names['y']})")
    counted = target.startswith("i,")
    iterated = f"enumerate({names['loader']})" if counted else names["loader"]
    iterated = style.one(iterated, iterated, f"({iterated})" if not counted else iterated)
    epochs = style.one("for epoch in range(2):", "for _ in range(EPOCHS):", "while True:")
    training = Block(f"for {target} in {iterated}:", step)
    printed = [f"print({names['loss']}.item())"] if style.rarely() else []
    whole = [Block(epochs, [training, *printed, *evaluated])]
    if structure == "file":
        return [*before, *made, *whole]
    if structure in ("main", "guard"):
        header = style.one(
            "def main():", "def main() -> None:", "def main(*, again=lambda: None):", "async def main():"
        )
        main = Block(header, [*made, *whole])
        call: Any = "main()" if structure == "main" else Block('if __name__ == "__main__":', ["main()"])
        return [*before, main, call]
    if structure == "class":
        methods = [Block("def __init__(self):", made), Block("def fit(self):", whole)]
        return [*before, Block("class Trainer:", methods), "Trainer().fit()"]
    return [*before, *_called(style, structure, made, training, evaluated, epochs)]


def _called(
    style: Style, structure: str, made: list[Any], training: Block, evaluated: list[Any], epochs: str
) -> list[Any]:
    """The loop, or the work on a batch, in a function that is called."""
    names = style.names
    model, optimizer, criterion, loader = (
        names[key] for key in ("model", "optimizer", "criterion", "loader")
    )
    if structure == "epoch function":
        given = ", ".join((model, loader, optimizer, criterion, names["device"]))
        function = Block(
            f"def train_epoch({given}):", [f"{model}.train()", training], style.one("", "@timed")
        )
        calls = Block(epochs, [f"train_epoch({given})", *evaluated])
        return ["def timed(f): return f", function, *made, calls]
    inputs = f"{model}, {optimizer}, {criterion}, {names['x']}, {names['y']}, {names['device']}"
    function = Block(f"def train_step({inputs}):", [*training.body, f"return {names['loss']}"])
    batches = Block(f"for {names['x']}, {names['y']} in {loader}:", [f"train_step({inputs})"])
    looped = Block(epochs, [batches, *evaluated])
    if structure == "nested":
        return [Block("def run():", [*made, function, looped]), "run()"]
    return [function, *made, looped]


def _framework(style: Style, parts: Parts, told: Told) -> list[Any]:
    """A script whose loop belongs to a framework or goes through one."""
    names = style.names
    kind = style.one("lightning", "transformers", "accelerate")
    if kind == "lightning":
        trainer = style.one("pl.Trainer", "Trainer")
        imported = (
            "import lightning.pytorch as pl" if trainer.startswith("pl") else "from lightning import Trainer"
        )
        made = style.assign(
            "trainer", style.call(trainer, style.mixed(["max_epochs=1", "accelerator='gpu'"]))
        )
        return [
            imported,
            *setup(style, parts, told),
            made,
            f"trainer.fit({names['model']}, {names['loader']})",
        ]
    if kind == "transformers":
        options = style.call("TrainingArguments", ["'out'", *style.mixed(["max_steps=9", "save_steps=10"])])
        trainer = style.call("Trainer", [f"model={names['model']}", "args=options_"])
        return [
            "from transformers import Trainer, TrainingArguments",
            *setup(style, parts, told),
            style.assign("options_", options),
            style.assign("trainer", trainer),
            "trainer.train()",
        ]
    step = [
        style.assign(names["out"], style.call(names["model"], [names["x"]])),
        f"{names['loss']} = {names['criterion']}({names['out']}, {names['y']})",
        f"accelerator.backward({names['loss']})",
        f"{names['optimizer']}.step()",
        f"{names['optimizer']}.zero_grad()",
    ]
    return [
        style.one("from accelerate import Accelerator", "import accelerate"),
        f"accelerator = {style.one('Accelerator()', 'Accelerator(cpu=False)')}",
        *setup(style, parts, told),
        Block(f"for {names['x']}, {names['y']} in {names['loader']}:", step),
    ]
