"""The documents of a client, which are the reference for the server's documents, and random changes of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

ODD = ("\f", "\v", "\u2028", "\x85", "\r", "\r\n", "\0", "é", "😋", "\ud800", "\ufeff", "\t", "\x1c")
PIECES = (
    "import torch\n",
    "for batch in loader:\n    loss.backward()\n    optimizer.step()\n",
    "loader = DataLoader(data, batch_size=16)\n",
    "def f(x):\n    return x\n",
    "x = (((",
    '"""',
    "batch_size = 32\n",
    "# note\n",
    "    y = x.item()\n",
    "if True:\n",
    "\\\n",
)


@dataclass(slots=True)
class Document:
    version: int
    text: str


@dataclass(slots=True)
class Held:
    """Documents by URI, following the protocol. ``encoding`` is the encoding of positions."""

    encoding: str
    open: dict[str, Document] = field(default_factory=dict)

    def opened(self, uri: str, version: int, text: str) -> None:
        self.open[uri] = Document(version, text)

    def closed(self, uri: str) -> None:
        self.open.pop(uri, None)

    def changed(self, uri: str, version: int, changes: list[dict[str, Any]]) -> None:
        """Apply a change as the server must do it. Ignores changes of a closed document or with an old version."""
        document = self.open.get(uri)
        if document is not None and version >= document.version:
            document.version = version
            for change in changes:
                document.text = change["text"]

    def offset(self, text: str, position: dict[str, int]) -> int:
        lines = lines_of(text)
        if position["line"] >= len(lines):
            return len(text)
        line = lines[position["line"]].rstrip("\r\n")
        before = sum(map(len, lines[: position["line"]]))
        width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        name = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[self.encoding]
        data = line.encode(name, "surrogatepass")[: width * position["character"]]
        return before + len(data.decode(name, "surrogatepass"))

    def units(self, text: str) -> int:
        width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        name = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[self.encoding]
        return len(text.encode(name, "surrogatepass")) // width

    def inside(self, text: str, position: dict[str, int]) -> bool:
        lines = lines_of(text)
        number = position["line"]
        return number < len(lines) and position["character"] <= self.units(lines[number].rstrip("\r\n"))


def lines_of(text: str) -> list[str]:
    """The lines with their ends (CR LF, CR or LF), and the last line, which has none."""
    lines, start, at = [], 0, 0
    while at < len(text):
        if text[at] in "\r\n":
            at += 2 if text[at : at + 2] == "\r\n" else 1
            lines.append(text[start:at])
            start = at
        else:
            at += 1
    return [*lines, text[start:]]


def position(chance: random.Random, held: Held, text: str) -> dict[str, int]:
    """A position in a text, between two characters, or beyond its end."""
    if chance.random() < 0.1:
        return {"line": chance.choice((0, 5, 10_000, 2**31 - 1)), "character": 2**31 - 1}
    lines = lines_of(text)
    number = chance.randrange(len(lines))
    line = lines[number].rstrip("\r\n")
    return {"line": number, "character": held.units(line[: chance.randint(0, len(line))])}


def change(chance: random.Random, held: Held, text: str) -> dict[str, Any]:
    """A change as a client sends it: the whole text, with a part of it replaced."""
    piece = chance.choice(PIECES) if chance.random() < 0.7 else chance.choice(ODD)
    if chance.random() < 0.02:
        piece = chance.choice(("(" * 3000, "-" * 5000 + "1\n", "[" * 500, "x" * 200_000, "a = 1\n" * 5000))
    if len(text) > 20_000 or chance.random() < 0.02:
        return {"text": chance.choice(("", *PIECES)) * 3}
    places = [position(chance, held, text) for _ in range(2)]
    if chance.random() < 0.7:
        places[1] = places[0]
    first, last = sorted(held.offset(text, place) for place in places)
    return {"text": text[:first] + piece + text[last:]}
