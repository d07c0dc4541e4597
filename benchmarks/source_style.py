"""The layout of a generated script. Every choice is random and does not change the meaning.

Statements are texts of one or several lines. Blocks are headers with statements below. The result is indented lines,
with random comments, blank lines, semicolons, and blocks on the line of their header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

RAW = "\0"
"""Marks a line that is not indented with its statement, inside a string or flush inside brackets."""

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
    "flame = '\U0001f525\u0301'; spark = '\U0001f680'",
    "code = 'for x, y in loader: loss.backward()'",
    "code = r'''optimizer = torch.optim.SGD(model.parameters(), lr=1)\\d'''",
    "shown = f\"{'loss'!r:>{10}} {{optimizer.step()}}\"",
    "first = second = (yes := True)",
    "pair = 1, \\\n  2",
    "data_ = b'\\x00DataLoader(x)'",
    f"flat = [\n{RAW}1,\n{RAW}]",
    "if 0: pass",
    "count = 0x_10 + 1_000 if True else .5e-3",
    "block = part_loss = whole_loss = None",
    "sure = not(True)",
    "print(*[1], sep='')",
    "x_ = [n for n in range(3) if n]; [x_[0], *x_] = 1, 2",
    "...",
    "'loss.backward()'",
    "try: pass\nfinally: pass",
    "class Empty: a = 1; b = a",
    "def nothing(loss, *, optimizer=None): return loss",
    "@staticmethod\ndef same(x): return x",
)
"""Statements that are unrelated to the training, and difficult for a rewrite to skip."""

_COMMENTS = ("# note", "# TODO: später", "#", "# loss.backward()", "#: x = [1,", "# type: ignore", "#\t'''")


@dataclass
class Block:
    """A header with the statements below it, which are texts."""

    header: str
    body: list[Any]
    decorator: str = ""


@dataclass
class Style:
    """The layout of one variant. Every choice is random."""

    random: Random
    unit: str = "    "
    oddities: tuple[str, ...] = ODDITIES
    comments: tuple[str, ...] = _COMMENTS
    wide: tuple[str, ...] = ()
    """Names with letters beyond ASCII that the encoding supports."""
    names: dict[str, str] = field(default_factory=dict)

    def one(self, *options: Any) -> Any:
        """One of the options."""
        return self.random.choice(options)

    def chance(self, times: int) -> bool:
        """True once in ``times`` times."""
        return self.random.randrange(times) == 0

    def rarely(self) -> bool:
        """True once in ten times."""
        return self.chance(10)

    def sometimes(self) -> bool:
        """True once in four times."""
        return self.chance(4)

    def often(self) -> bool:
        """True once in two times."""
        return self.chance(2)

    def mixed(self, texts: Sequence[str]) -> list[str]:
        """The texts in random order."""
        return self.random.sample(list(texts), len(texts))

    def comment(self) -> str:
        """A random comment."""
        return self.one(*self.comments)

    def call(self, name: str, arguments: list[str]) -> str:
        """A call on one or several lines, with or without a trailing comma, sometimes with comments."""
        forms = ("line", "line", "spaced", "hanging", "aligned", "closing", "flush", "commas first", "noted")
        form = self.one(*forms) if arguments else self.one("line", "spaced")
        arguments = [self._spelt(argument) for argument in arguments]
        comma = self.one("", ",") if arguments and not arguments[-1].startswith("*") else ""
        if form == "hanging":
            lines = [*(f"{each}," for each in arguments[:-1]), f"{arguments[-1]}{comma}"]
            noted = [f"{line}  {self.comment()}" if self.sometimes() else line for line in lines]
            return "\n".join([f"{name}(", *(self.unit + line for line in noted), ")"])
        if form == "noted":
            lines = [f"{name}(  {self.comment()}"]
            for argument in arguments:
                lines += [self.unit + self.comment()] if self.rarely() else []
                lines += [f"{self.unit}{argument},"]
            return "\n".join([*lines, *([self.comment()] if self.rarely() else []), ")"])
        if form == "commas first":
            return "\n".join(
                [f"{name}(", f"  {arguments[0]}", *(f"  , {each}" for each in arguments[1:]), ")"]
            )
        if form == "flush":
            return "\n".join(
                [f"{name}(", *(f"{RAW}{each}," for each in arguments[:-1]), f"{RAW}{arguments[-1]})"]
            )
        if form == "aligned" and len(arguments) > 1:
            return f"{name}({arguments[0]},\n        " + ", ".join(arguments[1:]) + ")"
        if form == "closing":
            return f"{name}(\n    " + ", ".join(arguments) + comma + "\n)"
        blank = " " if form == "spaced" else ""
        return f"{name}({blank}" + f",{self.one(' ', '  ', '')}".join(arguments) + f"{blank})"

    def _spelt(self, argument: str) -> str:
        """An argument, sometimes with optional blanks or brackets."""
        name, sign, value = argument.partition("=")
        if not sign or not name.isidentifier() or "\n" in value or not self.rarely():
            return argument
        return self.one(f"{name} = {value}", f"{name}=({value})", f"{name}= {value}")

    def assign(self, target: str, value: str) -> str:
        """An assignment, with or without blanks, sometimes with a type, a line break or brackets around the value."""
        plain = target.isidentifier()
        form = self.one("=", "=", " = ", " = ", " = ", "break", "brackets", "type", "two", "walrus")
        if form == "break":
            return f"{target} = \\\n    {value}"
        if form == "brackets":
            return f"{target} = ({self.one('', '  ' + self.comment())}\n    {value}\n)"
        if form == "type" and plain:
            kind = self.one("object", '"torch.Tensor"', "dict[str, int]")
            return f"{target}: {kind} = {value}"
        if form == "two" and self.rarely():
            return f"also = {target} = {value}"
        if form == "walrus" and plain and self.rarely():
            return f"({target} := {value})"
        return f"{target}{form if '=' in form else ' = '}{value}"


def strewn(style: Style, statements: list[Any]) -> list[Any]:
    """The statements with odd ones in between, also in blocks."""
    found: list[Any] = []
    for each in statements:
        block = each if isinstance(each, Block) else None
        follows = block is not None and block.header.startswith(("else", "elif", "except", "finally"))
        if not follows and style.chance(30):
            found.append(style.one(*style.oddities))
        found.append(Block(block.header, strewn(style, block.body), block.decorator) if block else each)
    return found


def written(style: Style, statements: list[Any], indent: str) -> list[str]:
    """Lines of code. Statements may share a line, and blocks may be on the line of their header."""
    lines: list[str] = []
    joined = False
    for index, each in enumerate(statements):
        joinable = joined
        joined = False
        if isinstance(each, Block):
            lines += _block(style, each, indent)
            continue
        if style.rarely() and not joinable:
            lines += [style.one("", "", "   ", "\f", style.one("", indent) + style.comment())]
        pieces = each.split("\n")
        if joinable and lines:
            lines[-1] += style.one("; ", ";", " ; ") + pieces[0]
        else:
            lines.append(indent + pieces[0])
        for piece in pieces[1:]:
            lines.append(piece.replace(RAW, "") if piece.startswith(RAW) else indent + piece)
        following = statements[index + 1] if index + 1 < len(statements) else None
        if _is_simple(each) and _is_simple(following) and style.rarely():
            joined = True
        elif style.rarely():
            lines[-1] += style.one("  " + style.comment(), ";" if _is_simple(each) else "", " ")
    return lines


def _is_simple(statement: Any) -> bool:
    """True if a statement may share its line with others. Texts that contain a small block may not."""
    return (
        isinstance(statement, str)
        and "#" not in statement.rpartition("\n")[2]
        and not statement.startswith(("if ", "for ", "try", "class ", "def ", "@"))
    )


def _block(style: Style, block: Block, indent: str) -> list[str]:
    lines = [indent + each for each in block.decorator.split("\n")] if block.decorator else []
    if lines and style.rarely():
        lines.append(indent + style.comment())
    header = block.header
    simple = all(_is_simple(each) and "\n" not in each for each in block.body)
    if simple and style.rarely() and not header.startswith(("class", "def __init__")):
        return [*lines, indent + header + style.one(" ", "  ", "") + "; ".join(block.body)]
    if style.rarely():
        header += "  " + style.comment()
    inner = written(style, block.body, indent + style.unit)
    lead = [indent + style.unit + '"""As it is."""'] if header.startswith("def ") and style.rarely() else []
    blank = [style.one("", indent)] if style.rarely() else []
    return [*lines, indent + header, *lead, *inner, *blank]
