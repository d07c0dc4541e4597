"""Training scripts made up in endless ways of writing the same thing, for rewrites to be tried on.

The variants differ in line ends, indentation, encoding, imports and aliases, names, the order of keywords, spread
arguments, line breaks and comments inside calls, one-line blocks, semicolons, texts over several lines, and in where
the loop stands: in the file, in functions, in a class, under the main guard. None of them is ever run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from skyline.source.syntax import parse
from skyline.source.text import SourceText

SCRIPT = "/project/train.py"
_INNER = ("to", "cuda", "item", "print", "zero_grad", "backward", "step")
RAW = "\0"
"""Begins a line that is not indented with its statement: it is inside a text."""


ODDITIES = (
    "assert True, 'a; b  # no comment'",
    "z: int = 3",
    "lines = [\n    1,  # one\n\n  2, ]",
    f'words = """\n{RAW}\tas it is; loss.backward()\n{RAW}    """',
    "text = 'a' \\\n    'b'",
    "page = '\u2028 \x0c'",
    "print(n := 3)",
    "g = lambda torch, *a, **k: torch(a, k)",
    "table = {'loss': [1, 2], **{}}; del table",
    "(\n  z\n) = 4",
    "scaler = 1",
    "checkpoint = None",
)
"""Statements that have nothing to do with the training, and are awkward to step over."""


@dataclass(frozen=True)
class Variant:
    """One script, and the lines that a run of it would tell."""

    source: SourceText
    structure: str
    optimizer: str
    lines: dict[str, int]
    """Of the training loop (``loop``) and of calls, by what is called."""


@dataclass
class Block:
    """A header with the statements below it; statements are texts."""

    header: str
    body: list[Any]
    decorator: str = ""


@dataclass
class Style:
    """How one variant is written; every choice is drawn."""

    draw: Any
    unit: str = "    "
    oddities: tuple[str, ...] = ()
    comments: tuple[str, ...] = ("# note", "# TODO: später", "#", "# loss.backward()", "#: x = [1,")
    names: dict[str, str] = field(default_factory=dict)

    def one(self, *options: Any) -> Any:
        """Any of these."""
        return self.draw(st.sampled_from(options))

    def rarely(self) -> bool:
        """True once in ten times."""
        return self.draw(st.integers(0, 9)) == 9

    def sometimes(self) -> bool:
        """True once in four times."""
        return self.draw(st.integers(0, 3)) == 3

    def call(self, name: str, arguments: list[str]) -> str:
        """A call on one line or several, with or without a comma at the end, with comments between."""
        form = self.one("line", "line", "line", "spaced", "hanging", "hanging", "aligned", "closing")
        comma = self.one("", ",") if arguments and not arguments[-1].startswith("*") else ""
        if form == "hanging":
            lines = (
                [f"{argument}," for argument in arguments[:-1]] + [f"{arguments[-1]}{comma}"]
                if arguments
                else []
            )
            noted = [f"{line}  {self.one(*self.comments)}" if self.rarely() else line for line in lines]
            return "\n".join([f"{name}(", *(self.unit + line for line in noted), ")"])
        if form == "aligned" and len(arguments) > 1:
            return f"{name}({arguments[0]},\n        " + ", ".join(arguments[1:]) + ")"
        if form == "closing":
            return f"{name}(\n    " + ", ".join(arguments) + comma + "\n)"
        blank = " " if form == "spaced" else ""
        return f"{name}({blank}" + f",{self.one(' ', '  ', '')}".join(arguments) + f"{blank})"

    def assign(self, target: str, value: str) -> str:
        """An assignment, with or without blanks, or with a line break before the value."""
        sign = self.one(" = ", " = ", "=", " = \\\n    ")
        return f"{target}{sign}{value}"

    def mixed(self, keywords: list[str]) -> list[str]:
        """The same in any order."""
        return list(self.draw(st.permutations(keywords)))


@st.composite
def variants(draw: Any) -> Variant:
    """One script."""
    style = Style(draw)
    style.unit = style.one("    ", "    ", "  ", "\t", "   ", "        ")
    newline = style.one("\n", "\n", "\r\n", "\r")
    encoding = style.one("utf-8", "utf-8", "utf-8", "latin-1")
    mark = encoding == "utf-8" and style.rarely()
    if encoding == "latin-1":
        style.comments = tuple(each.replace("ä", "\xe4") for each in style.comments)
    structure = style.one("file", "main", "guard", "class", "epoch function", "step function", "nested")
    style.oddities = tuple(each for each in ODDITIES if encoding == "utf-8" or each.isascii())
    names = _names(style, encoding, structure)
    lines = _head(style, encoding, names)
    statements = _strewn(style, [*_classes(style, names), *_program(style, structure, names)])
    text = newline.join([*lines, *_written(style, statements, "", top=True)])
    text += newline if not style.rarely() else ""
    source = SourceText(SCRIPT, text, encoding, mark)
    return _located(source, structure, names)


def _names(style: Style, encoding: str, structure: str) -> dict[str, str]:
    wide = ("модель",) if encoding == "utf-8" else ("modèle",)
    names = {
        "model": style.one("model", "net", "network", *wide),
        "loss": style.one("loss", "total_loss", "l"),
        "optimizer": style.one("optimizer", "opt", "optim_"),
        "loader": style.one("loader", "train_loader", "batches"),
        "criterion": style.one("criterion", "loss_fn"),
        "x": style.one("x", "inputs", "images"),
        "y": style.one("y", "targets"),
        "out": style.one("out", "logits", "pred"),
        "device": style.one("device", "dev"),
        "class": style.one("AdamW", "Adam", "SGD"),
    }
    if structure == "class":
        for name in ("model", "optimizer", "loader", "criterion"):
            names[name] = f"self.{names[name]}"
    return names


def _head(style: Style, encoding: str, names: dict[str, str]) -> list[str]:
    """Shebang, cookie, docstring and imports; the names under which things were imported go to ``names``."""
    lines = ["#!/usr/bin/env python"] if style.rarely() else []
    if encoding != "utf-8" or style.rarely():
        lines.append(f"# -*- coding: {encoding} -*-")
    if style.sometimes():
        lines += style.one(
            ['"""Trains."""'], ["'''Trains: import torch", "  as it is'''"], ["# only a comment", ""]
        )
    if style.sometimes():
        lines.append("from __future__ import annotations")
    torch = style.one("torch", "torch", "torch", "th")
    imports = ["import torch" if torch == "torch" else f"import torch as {torch}"]
    nn = style.one("torch.nn", "nn", "nn")
    if nn == "nn":
        imports.append(style.one("from torch import nn", "import torch.nn as nn"))
    else:
        nn = f"{torch}.nn"
    functional = style.one("F", f"{nn}.functional")
    if functional == "F":
        imports.append("import torch.nn.functional as F")
    optim = style.one("attribute", "module", "class", "renamed")
    names["optim"] = {
        "attribute": f"{torch}.optim.{names['class']}",
        "module": f"optim.{names['class']}",
        "class": names["class"],
        "renamed": "Opt",
    }[optim]
    if optim == "module":
        imports.append(style.one("from torch import optim", "import torch.optim as optim"))
    elif optim in ("class", "renamed"):
        suffix = " as Opt" if optim == "renamed" else ""
        imports.append(f"from torch.optim import {names['class']}{suffix}")
    data = style.one("DataLoader", "data.DataLoader")
    imports.append(
        style.one(
            "from torch.utils.data import DataLoader",
            "from torch.utils.data import (\n    DataLoader,  # loads\n)",
        )
        if data == "DataLoader"
        else "from torch.utils import data"
    )
    imports = style.mixed(imports)
    other = style.one(
        "import os",
        "import math, time",
        "import numpy as np  # arrays",
        "try:\n    import tqdm\nexcept ImportError:\n    tqdm = None",
    )
    imports.insert(style.draw(st.integers(0, len(imports))), other)
    if style.rarely():
        imports.append("from os.path import join; VERSION = 1")
    names.update(torch=torch, nn=nn, functional=functional, DataLoader=data)
    return [line for text in (*lines, *imports) for line in text.split("\n")]


def _classes(style: Style, names: dict[str, str]) -> list[Any]:
    """The model's class, in some of the shapes that rewrites look for."""
    nn, torch = names["nn"], names["torch"]
    kind = style.one("linear", "attention", "convolution", "embedding", "none")
    names["kind"] = kind
    if kind == "none":
        return []
    made: list[Any] = ["super().__init__()"]
    body: list[Any]
    if kind == "attention":
        made += [f"self.q, self.k, self.v = ({nn}.Linear(8, 8) for _ in range(3))"]
        body = [
            "q, k, v = self.q(x), self.k(x), self.v(x)",
            style.assign("w", "(q @ k.transpose(-2, -1)) / 8 ** 0.5"),
            style.one("w = w.softmax(dim=-1)", f"w = {names['functional']}.softmax(w, dim=-1)"),
            "return w @ v",
        ]
    elif kind == "convolution":
        made += [f"self.body = {nn}.Sequential({nn}.Conv2d(3, 8, 3), {nn}.BatchNorm2d(8), {nn}.ReLU())"]
        body = ["return self.body(x).mean((2, 3))"]
    elif kind == "embedding":
        made += [
            style.assign("self.words", style.call(f"{nn}.Embedding", ["50257", "64"])),
            f"self.out = {nn}.Linear(64, 50257)",
        ]
        body = ["return self.out(self.words(x))"]
    else:
        made += [f"self.blocks = {nn}.ModuleList([{nn}.Linear(8, 8) for _ in range(4)])"]
        body = [Block("for block in self.blocks:", ["x = block(x)", f"x = {torch}.relu(x)"]), "return x"]
    methods = [Block("def __init__(self):", made), Block("def forward(self, x):", body)]
    return [Block(f"class Net({nn}.Module):", methods)]


def _program(style: Style, structure: str, names: dict[str, str]) -> list[Any]:
    step, loop = _step(style, names), names["loader"]
    target = style.one(f"{names['x']}, {names['y']}", f"i, ({names['x']}, {names['y']})")
    iterated = f"enumerate({loop})" if target.startswith("i,") else loop
    evaluation = Block(
        "def evaluate(model, batches):",
        [
            Block(
                f"with {names['torch']}.no_grad():", [Block("for x, y in batches:", ["model(x)", "print(y)"])]
            )
        ],
        style.one("", "", f"@{names['torch']}.no_grad()"),
    )
    before = [evaluation] if style.sometimes() else []
    epochs = style.one("for epoch in range(2):", "for _ in range(EPOCHS):")
    constants = ["EPOCHS = 3", style.assign("BATCH", style.one("16", "0x10", "(16)"))]
    setup = _setup(style, names)
    training = Block(f"for {target} in {iterated}:", step)
    whole = [Block(epochs, [training, *([f"print({names['loss']}.item())"] if style.rarely() else [])])]
    if structure == "file":
        return [*before, *constants, *setup, *whole]
    if structure in ("main", "guard"):
        main = Block(style.one("def main():", "def main() -> None:"), [*setup, *whole])
        call: Any = "main()" if structure == "main" else Block('if __name__ == "__main__":', ["main()"])
        return [*before, *constants, main, call]
    if structure == "class":
        methods = [Block("def __init__(self):", setup), Block("def fit(self):", whole)]
        return [*before, *constants, Block("class Trainer:", methods), "Trainer().fit()"]
    model, optimizer, criterion = names["model"], names["optimizer"], names["criterion"]
    given = ", ".join((model, names["loader"], optimizer, criterion, names["device"]))
    if structure == "epoch function":
        function = Block(
            f"def train_epoch({given}):", [f"{model}.train()", training], style.one("", "@timed")
        )
        return [
            *before,
            "def timed(f): return f",
            *constants,
            function,
            *setup,
            Block(epochs, [f"train_epoch({given})"]),
        ]
    inputs = f"{model}, {optimizer}, {criterion}, {names['x']}, {names['y']}, {names['device']}"
    function = Block(f"def train_step({inputs}):", [*step, f"return {names['loss']}"])
    looped = Block(epochs, [Block(f"for {names['x']}, {names['y']} in {loop}:", [f"train_step({inputs})"])])
    if structure == "nested":
        return [*constants, Block("def run():", [*setup, function, looped]), "run()"]
    return [*before, *constants, function, *setup, looped]


def _setup(style: Style, names: dict[str, str]) -> list[Any]:
    torch, nn, model, device = (names[key] for key in ("torch", "nn", "model", "device"))
    kind = style.one("'cuda'", '"cpu"')
    made = f"{torch}.device({kind})"
    statements: list[Any] = [style.assign(device, style.one(made, made, '"cuda:0"'))]
    if style.sometimes():
        statements.append(
            style.one(
                f"{torch}.manual_seed(0)",
                f"{torch}.backends.cudnn.benchmark = False",
                f"{torch}.set_num_threads(1)",
                f"{torch}.set_float32_matmul_precision('highest')",
            )
        )
    keywords = style.mixed(
        [
            f"batch_size={style.one('BATCH', '16', '0x10')}",
            "shuffle=True",
            *(["num_workers=0"] if style.sometimes() else []),
            *(["pin_memory=False"] if style.sometimes() else []),
        ]
    )
    if style.rarely():
        statements.append(style.one("options = dict(drop_last=True)", "options = make_options()"))
        keywords.append("**options")
    statements.append(
        style.assign(names["loader"], style.call(names["DataLoader"], ["make_data()", *keywords]))
    )
    value = (
        "Net()"
        if names["kind"] != "none"
        else style.call(f"{nn}.Sequential", [f"{nn}.Linear(8, 8)", f"{nn}.ReLU()"])
    )
    moved = style.one("chained", "assigned", "in place", "no")
    statements.append(style.assign(model, value + (f".to({device})" if moved == "chained" else "")))
    if moved in ("assigned", "in place"):
        statements.append(
            f"{model} = {model}.to({device})" if moved == "assigned" else f"{model}.to({device})"
        )
    if style.rarely():
        statements.append(f"{model} = {nn}.parallel.DistributedDataParallel({model})")
    arguments = [
        f"{model}.parameters()",
        *style.mixed(["lr=1e-3", *(["weight_decay=0.0"] if style.sometimes() else [])]),
    ]
    if style.rarely():
        arguments.append(style.one("**{'maximize': False}", "**extra()"))
    statements.append(style.assign(names["optimizer"], style.call(names["optim"], arguments)))
    losses = style.one(*["CrossEntropyLoss"] * 9, "BCELoss")
    statements.append(style.assign(names["criterion"], f"{nn}.{losses}()"))
    return statements


def _step(style: Style, names: dict[str, str]) -> list[Any]:
    """One iteration: transfers, clearing, forward, loss, backward, clipping, step, a print now and then."""
    x, y, out, loss, model, optimizer = (
        names[key] for key in ("x", "y", "out", "loss", "model", "optimizer")
    )
    device, criterion = names["device"], names["criterion"]
    statements: list[Any] = []
    where = f"to({device})" if not model.startswith("self.") else "cuda()"
    if style.sometimes():
        statements += [f"{x} = {x}.{where}", f"{y} = {y}.{where}"]
    elif style.sometimes():
        statements.append(f"{x}, {y} = {x}.{where}, {y}.{where}")
    clearing = style.one(
        f"{optimizer}.zero_grad()", f"{model}.zero_grad()", f"{optimizer}.zero_grad(set_to_none=False)"
    )
    first = style.sometimes()
    statements += [clearing] if first else []
    form = style.one(*["two", "two", "one", "condition", "text", "two"] * 2, "autocast", "wrapped")
    if form == "one":
        statements.append(style.assign(loss, style.call(criterion, [f"{model}({x})", y])))
    elif form == "condition":
        statements.append(Block("if EPOCHS > 2:", [f"{out} = {model}({x})"]))
        statements.append(Block("else:", [f"{out} = {model}({x} * 2)"]))
        statements.append(f"{loss} = {criterion}({out}, {y})")
    elif form in ("autocast", "wrapped"):
        kind = f"{names['torch']}.autocast('cuda')" if form == "autocast" else "open('log') as log, lock"
        statements.append(
            Block(f"with {kind}:", [f"{out} = {model}({x})", f"{loss} = {criterion}({out}, {y})"])
        )
    else:
        statements.append(style.assign(out, style.call(model, [x])))
        if form == "text":
            text = "\n".join(("note = '''", f"{RAW}  of {{x}} as it is", f"{RAW}''' + f\"{{1:>{{2}}}}\""))
            statements.append(text)
        statements.append(style.assign(loss, style.call(criterion, [out, y])))
    if style.rarely():
        statements.append(f"{loss} = {loss} / 2")
    statements.append(
        style.one(
            *[f"{loss}.backward()"] * 12, f"{loss}.mean().backward()", f"{loss}.backward(retain_graph=True)"
        )
    )
    if style.sometimes():
        statements.append(f"{names['nn']}.utils.clip_grad_norm_({model}.parameters(), 1.0)")
    stepped = f"{optimizer}.step()"
    odd = style.draw(st.integers(0, 19))
    if odd == 19:
        statements.append(Block("try:", [stepped]))
        statements.append(Block("except RuntimeError:", ["raise"]))
    elif odd == 18:
        statements.append(Block("if EPOCHS:", [stepped]))
    else:
        statements.append(f"{optimizer}.step(lambda: {loss})" if odd == 17 else stepped)
    if not first:
        statements.append(clearing)
    if style.sometimes():
        statements.append(
            style.one(f"print({loss}.item())", f'print(f"{{{loss}.item():.3f}}")', f"history = {loss}.item()")
        )
    return statements


def _strewn(style: Style, statements: list[Any]) -> list[Any]:
    """With odd statements in between, in blocks as well."""
    found: list[Any] = []
    for each in statements:
        block = each if isinstance(each, Block) else None
        follows = block is not None and block.header.startswith(("else", "except"))
        if not follows and style.draw(st.integers(0, 29)) == 29:
            found.append(style.one(*style.oddities))
        found.append(Block(block.header, _strewn(style, block.body), block.decorator) if block else each)
    return found


def _written(style: Style, statements: list[Any], indent: str, top: bool = False) -> list[str]:
    """Lines of code; neighbours may share a line, blocks may stand on the line of their header."""
    lines: list[str] = []
    joined = False
    for index, each in enumerate(statements):
        joinable = joined
        joined = False
        if isinstance(each, Block):
            lines += _block(style, each, indent)
            continue
        if style.rarely() and not joinable:
            lines += [style.one("", "", "   ", "\f", style.one("", indent) + style.one(*style.comments))]
        pieces = each.split("\n")
        if joinable and lines:
            lines[-1] += style.one("; ", ";", " ; ") + pieces[0]
        else:
            lines.append(indent + pieces[0])
        for piece in pieces[1:]:
            lines.append(piece.replace(RAW, "") if piece.startswith(RAW) else indent + piece)
        follows = index + 1 < len(statements) and isinstance(statements[index + 1], str)
        if follows and style.rarely() and not lines[-1].lstrip().startswith("#"):
            joined = True
        elif style.rarely():
            lines[-1] += style.one("  " + style.one(*style.comments), ";", " ")
    return lines


def _block(style: Style, block: Block, indent: str) -> list[str]:
    lines = [indent + block.decorator] if block.decorator else []
    header = block.header
    simple = all(isinstance(each, str) and "\n" not in each for each in block.body)
    if simple and style.rarely() and not header.startswith(("class", "def __init__")):
        return [*lines, indent + header + " " + "; ".join(block.body)]
    if style.rarely():
        header += "  " + style.one(*style.comments)
    inner = _written(style, block.body, indent + style.unit)
    lead = [indent + style.unit + '"""As it is."""'] if header.startswith("def ") and style.rarely() else []
    blank = [style.one("", indent)] if style.rarely() else []
    return [*lines, indent + header, *lead, *inner, *blank]


def _located(source: SourceText, structure: str, names: dict[str, str]) -> Variant:
    lines: dict[str, int] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.For) and names["loader"] in ast.unparse(node.iter):
            lines.setdefault("loop", node.lineno)
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            kind = "optimizer" if called == names["optim"] else called.rpartition(".")[2]
            kind = "model" if called == names["model"] else kind
            # Of a call that stands in several places the innermost is the iteration's.
            lines[kind] = node.lineno if kind in _INNER else lines.get(kind, node.lineno)
    return Variant(source, structure, names["class"], lines)
