"""The models of generated scripts: embeddings, repeated blocks, attention and convolutions, each in many forms.

Models contain the code that rewrites look for, in the forms that people use. ``Parts`` lists these forms, so that
matching facts of a run can be generated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from source_style import Block, Style

VOCABULARY = 50257
WIDTH = 64
BLOCKS = 4


@dataclass(frozen=True)
class Parts:
    """Parts of a model: the class of its embedding, the container of its blocks, and the modules after them."""

    embedding: str = ""
    output: bool = False
    """True if a linear layer gives one number for each word."""
    blocks: str = ""
    """``list`` and ``sequential`` are numbered, ``named`` has two attributes. Empty without blocks."""
    attention: bool = False
    convolution: bool = False

    @property
    def any(self) -> bool:
        """True if there is any class."""
        return bool(self.embedding or self.blocks or self.attention or self.convolution)


def model_classes(style: Style) -> tuple[Parts, list[Any]]:
    """The parts of one model, and the statements of its classes and before them."""
    embedding = style.one("", "Embedding", "Embedding", "EmbeddingBag")
    parts = Parts(
        embedding,
        bool(embedding) and not style.sometimes(),
        style.one("", "list", "list", "sequential", "named"),
        style.often(),
        style.sometimes(),
    )
    if not parts.any:
        return parts, []
    nn = style.names["nn"]
    made: list[Any] = [
        style.one("super().__init__()", "super(Net, self).__init__()", f"{nn}.Module.__init__(self)")
    ]
    forward: list[Any] = []
    before: list[Any] = []
    if parts.embedding:
        before += _embedding(style, parts, made, forward)
    if parts.convolution:
        made.append(f"self.body = {_pixels(style)}")
        forward.append(style.one("x = self.body(x).mean((2, 3))", "x = self.body(x.float()).flatten(1)"))
    if parts.blocks:
        made += _held(style, parts.blocks)
        forward += _through(style, parts.blocks)
        before.append(_block_class(style))
    if parts.attention:
        made += _attention_layers(style)
        forward += _attention(style)
    if parts.output:
        forward.append(style.one("x = self.out(x)", style.assign("x", style.call("self.out", ["x"]))))
    forward.append(style.one("return x", "return (x)", "return x  # done"))
    header = style.one(
        "def forward(self, x):",
        "def forward(self, x, w=None):",
        "def forward(self, x: 'T', /, *rest) -> 'T':",
        "def forward(\n    self,\n    x,  # the batch\n):",
    )
    methods: list[Any] = [Block("def __init__(self):", made)]
    noted = style.one("", "", "", "@noted") if "@noted" in style.names.get("decorators", "") else ""
    methods.append(Block(header, forward, noted))
    if style.rarely():
        methods.append(Block("def extra_repr(self):", ["return 'for block in self.blocks: x = block(x)'"]))
    return parts, [*before, Block(f"class Net({nn}.Module):", methods)]


def _embedding(style: Style, parts: Parts, made: list[Any], forward: list[Any]) -> list[Any]:
    """The embedding table, and sometimes the output layer. The size is a literal, a constant or an attribute."""
    nn = style.names["nn"]
    literal = style.one("50257", "50257", "50_257", "0xC451")
    where = style.one("literal", "literal", "constant", "class", "dictionary", "default")
    before: list[Any] = []
    size = literal
    if where == "constant":
        before, size = [style.assign("VOCAB", literal)], "VOCAB"
    elif where == "class":
        before, size = (
            [Block("class Config:", [f"vocab_size = {literal}", "width = 64"])],
            "Config.vocab_size",
        )
    elif where == "dictionary":
        before, size = [f"CONFIG = {{'vocab': {literal},  # words\n  'width': 64}}"], "CONFIG['vocab']"
    elif where == "default":
        before = [Block(f"def words_of(vocab={literal}):", [f"return {nn}.Embedding(vocab, 64)"])]
    mode = [style.one("mode='sum'", 'mode="mean"')] if parts.embedding == "EmbeddingBag" else []
    options = style.mixed(
        [
            *mode,
            *(["padding_idx=0"] if style.rarely() else []),
            *(["sparse=False"] if style.rarely() else []),
            *(["scale_grad_by_freq=False"] if style.rarely() else []),
        ]
    )
    sizes = [size, "64"] if style.often() or options else [f"num_embeddings={size}", "embedding_dim=64"]
    made.append(style.assign("self.words", style.call(f"{nn}.{parts.embedding}", [*sizes, *options])))
    if parts.output:
        given = ["64", size] if style.often() else ["64", f"out_features={size}"]
        bias = ["bias=False"] if style.sometimes() else []
        made.append(style.assign("self.out", style.call(f"{nn}.Linear", [*given, *bias])))
    forward.append(style.one("x = self.words(x)", style.assign("x", style.call("self.words", ["x"]))))
    return before


def _pixels(style: Style) -> str:
    nn = style.names["nn"]
    layers = [style.call(f"{nn}.Conv2d", ["3", "8", "3"]), f"{nn}.BatchNorm2d(8)", f"{nn}.ReLU()"]
    return f"{nn}.Sequential(" + ", ".join(layers) + ")"


def _block_class(style: Style) -> Block:
    nn, functional = style.names["nn"], style.names["functional"]
    made = ["super().__init__()", f"self.fc = {nn}.Linear(64, 64)"]
    body = style.one(
        ["return x + self.fc(x)"],
        [style.assign("y", "self.fc(x)"), f"return x + {functional}.relu(y)"],
        ["x = self.fc(x)", "x = x * 2", "return x"],
        [f"return {functional}.gelu(\n    self.fc(x),  # wide\n)"],
        ["x += self.fc(x)", "return x"],
        ["self.seen = x.shape", "return self.fc(x)"],
    )
    methods = [
        Block("def __init__(self):", made),
        Block(
            style.one(
                "def forward(self, x, mask=None):",
            ),
            body,
        ),
    ]
    return Block(f"class Block({nn}.Module):", methods)


def _held(style: Style, kind: str) -> list[Any]:
    nn = style.names["nn"]
    if kind == "named":
        return style.one(
            ["self.first = Block()", "self.second = Block()"],
            ["self.first, self.second = Block(), Block()"],
            ["self.first = Block(); self.second = Block()"],
        )
    holder = "ModuleList" if kind == "list" else "Sequential"
    star = "" if kind == "list" else "*"
    return [
        style.one(
            f"self.blocks = {nn}.{holder}({star}[Block() for _ in range({BLOCKS})])",
            style.assign("self.blocks", f"{nn}.{holder}({star}(Block() for each in range({BLOCKS})))"),
            f"self.blocks = {nn}.{holder}(\n    {star}[\n        Block()\n        for _ in range({BLOCKS})\n    ]\n)",
        )
    ]


def _through(style: Style, kind: str) -> list[Any]:
    """Statements of the forward pass through the blocks."""
    torch = style.names["torch"]
    if kind == "named":
        return style.one(
            ["x = self.first(x)", "x = self.second(x)"],
            ["x = self.second(self.first(x))"],
            ["h = self.first(x); x = self.second(h) + h"],
            [
                f"x = {torch}.relu(self.first(x, mask=None))",
                style.assign("x", style.call("self.second", ["x", "None"])),
            ],
        )
    given = style.one(
        "block(x)", "block(x)", "block(x, mask=None)", "block(\n    x,\n    mask=None,\n)", "block( x )"
    )
    loops = [
        [Block("for block in self.blocks:", [style.assign("x", given)])],
        [Block("for block in self.blocks:", [f"x = {given}", f"x = {torch}.relu(x)"])],
        [Block("for i, block in enumerate(self.blocks):", [f"x = {given}  # block"])],
        [Block("for block in self.blocks:", ["x = x + block(x) * 0.5"])],
        [Block("for i in range(len(self.blocks)):", ["x = self.blocks[i](x)"])],
        [Block("for block in (self.blocks):", ["x = block(x) if x is not None else x"])],
        ["x = [x := block(x) for block in self.blocks][-1]"],
        [Block("for i, (block, extra) in enumerate(zip(self.blocks, [1])):", ["x = block(x)"])],
    ]
    whole = [
        ["x = self.blocks(x)"],
        [style.assign("x", style.call("self.blocks", ["x"]))],
        ["h = self.blocks(x * 2)", "x = h"],
    ]
    return style.one(*loops[:3], *loops) if kind == "list" else style.one(*whole, *whole, *loops[:3])


def _attention_layers(style: Style) -> list[Any]:
    nn = style.names["nn"]
    names = style.names
    names["projected"] = style.one("three", "three", "chunks")
    made = (
        [f"self.q, self.k, self.v = ({nn}.Linear(64, 64) for _ in range(3))"]
        if names["projected"] == "three"
        else [style.assign("self.qkv", style.call(f"{nn}.Linear", ["64", "3 * 64"]))]
    )
    names["softmax"] = style.one("method", "function", "functional", "module")
    if names["softmax"] == "module":
        made.append(f"self.softmax = {nn}.Softmax(dim=-1)")
    names["dropped"] = style.one("", "", "", "module", "function")
    if names["dropped"] == "module":
        made.append(style.assign("self.drop", f"{nn}.Dropout({style.one('0.1', 'p=0.1')})"))
    return made


def _attention(style: Style) -> list[Any]:
    """Product, scaling, mask, softmax, dropout and product, in steps or in one expression."""
    torch, functional, names = style.names["torch"], style.names["functional"], style.names
    inputs = (
        "q, k, v = self.q(x), self.k(x), self.v(x)"
        if names["projected"] == "three"
        else style.assign("q, k, v", "self.qkv(x).chunk(3, dim=-1)")
    )
    product = style.one(
        "q @ k.transpose(-2, -1)",
        f"{torch}.matmul(q, k.transpose(-2, -1))",
        f'{torch}.einsum("bhid,bhjd->bhij", q, k)',
        "q @ k.mT",
        "q.matmul(k.transpose(2, 3))",
    )
    scale = style.one(" / 64 ** 0.5", " / 64 ** 0.5", " * q.size(-1) ** -0.5", " * 0.125", "")
    mask = style.one("", "", "", "filled", "added")
    steps: list[Any] = []
    if scale or style.often():
        steps.append(style.assign("w", f"({product}){scale}"))
    else:
        steps.append(f"w = {product}")
    if mask == "filled":
        hidden = style.one("mask_ == 0", f"{torch}.triu({torch}.ones(8, 8), 1).bool()")
        steps.append(style.assign("w", style.call("w.masked_fill", [hidden, "float('-inf')"])))
    elif mask == "added":
        steps.append("w = w + self.mask")
    softmax = {
        "method": style.one("w.softmax(dim=-1)", "w.softmax(-1)", "w.float().softmax(-1)"),
        "function": f"{torch}.softmax(w, dim=-1)",
        "functional": style.call(f"{functional}.softmax", ["w", "dim=-1"]),
        "module": "self.softmax(w)",
    }[names["softmax"]]
    dropped = {
        "": "",
        "module": style.call("self.drop", ["w"]),
        "function": f"{functional}.dropout(w, 0.1, self.training)",
    }[names["dropped"]]
    last = style.one(
        "x = w @ v", style.assign("x", f"{torch}.matmul(w, v)"), "x = w @ v  # mixed", "x = (w @ v) + x"
    )
    if not mask and not dropped and style.sometimes():
        whole = softmax.replace("w", f"(({product}){scale})", 1) if names["softmax"] == "method" else ""
        if whole:
            return [inputs, style.assign("x", f"{whole} @ v")]
    steps += [style.assign("w", softmax), *([f"w = {dropped}"] if dropped else []), last]
    if style.rarely():
        steps.append("self.weights = w")
    return [inputs, *steps]
