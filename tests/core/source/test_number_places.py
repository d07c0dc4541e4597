"""A number that the user names is found wherever a script sets it, and only that place changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.source.number_place import AskedName, NumberPlace, chosen, names
from skyline.source.number_search import number_places
from skyline.source.text import SourceText

SCRIPT = "/project/train.py"
PARSER = "import argparse\np = argparse.ArgumentParser()\n"


def find(
    source: str, asked: str, arguments: tuple[str, ...] = (), others: dict[str, str] | None = None
) -> NumberPlace:
    script = SourceText.of(SCRIPT, source)

    def read(path: Path) -> SourceText | None:
        found = (others or {}).get(path.as_posix().removeprefix("/project/"))
        return SourceText.of(str(path), found) if found is not None else None

    wanted = AskedName.parse(asked)
    return chosen(wanted, number_places(script, arguments, read, wanted.name), SCRIPT)


NET = "class Net:\n    def __init__(self, width={default}):\n        pass\n"
ROWS = {
    "constant": ("width = @64\n", "width"),
    "under the main guard": ("if __name__ == '__main__':\n    width = @64\n", "width"),
    "last of two": ("width = 32\nwidth = @64\n", "width"),
    "one of several": ("width, depth = @64, 2\n", "width"),
    "arithmetic": ("width = @4 * 16@\n", "width"),
    "float": ("dropout = @0.1\n", "dropout"),
    "negative": ("offset = @-1@\n", "offset"),
    "option": (PARSER + "p.add_argument('--width', type=int, default=@64)\n", "width"),
    "option with a hyphen": (
        PARSER + "p.add_argument('--hidden-size', type=int, default=@64)\n",
        "hidden_size",
    ),
    "option as typed": (PARSER + "p.add_argument('--hidden-size', type=int, default=@64)\n", "--hidden-size"),
    "option with a destination": (
        PARSER + "p.add_argument('-w', dest='width', type=int, default=@64)\n",
        "width",
    ),
    "dataclass": ("@dataclass\nclass Config:\n    width: int = §64\n".replace("@", "\0"), "width"),
    "dataclass field": ("class Config:\n    width: int = field(default=@64)\n", "Config.width"),
    "default of a constructor": (NET.format(default="@64") + "Net()\n", "width"),
    "owner": (NET.format(default="32") + "class Other:\n    width = @64\nNet()\n", "Other.width"),
    "keyword": (NET.format(default="32") + "Net(width=@64)\n", "width"),
    "by position": (NET.format(default="32") + "Net(@64)\n", "width"),
    "through a name": (NET.format(default="32") + "W = @64\nNet(width=W)\n", "width"),
    "through an option": (
        NET.format(default="32") + PARSER + "p.add_argument('--w', type=int, default=@64)\n"
        "args = p.parse_args()\nNet(width=args.w)\n",
        "width",
    ),
    "through a local name": (NET.format(default="32") + "def main():\n    w = @64\n    Net(w)\n", "width"),
    "dict entry": ("config = {'width': @64}\n", "width"),
    "dict call": ("config = dict(width=@64)\n", "config.width"),
    "attribute": ("config.width = @64\n", "width"),
    "constant before keyword": ("width = @64\nLSTM(width=32)\n", "width"),
    "by line": ("a(width=32)\nb(width=@64)\n", "width@2"),
    "by file and line": ("a(width=32)\nb(width=@64)\n", "width@train.py:2"),
    "crlf": ("import torch\r\nwidth = @64\r\n", "width"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_only_the_wanted_number_changes(row: tuple[str, str]) -> None:
    marked, asked = row[0].replace("§", "@"), row[1]
    before, _, rest = marked.partition("@")
    number, end, after = rest.partition("@")
    source = (before + number + after if end else before + rest).replace("\0", "@")
    place = find(source, asked)
    text = SourceText.of(SCRIPT, source)
    assert place.arguments(7, ()) == ()
    changed = text.apply([place.edit(7, text)]).text
    written = "7.0" if place.text == "0.1" else "7"
    assert changed.startswith(before.replace("\0", "@") + written)
    assert len(changed) == len(source) - len(place.text) + len(written)


def test_an_imported_module_is_searched_too() -> None:
    source = "from model import Net\nNet()\n"
    place = find(source, "width", others={"model.py": NET.format(default="64")})
    assert (Path(place.span.file).name, place.span.line, place.value) == ("model.py", 2, 64)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("--width", "16"), ("--width", "16", "--width=7")),
        (("--width=16", "x"), ("--width=16", "x", "--width=7")),
        (("--width", "16", "--", "x"), ("--width", "16", "--width=7", "--", "x")),
    ],
)
def test_an_option_on_the_command_line_is_changed_there(
    given: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    place = find(PARSER + "p.add_argument('--width', type=int, default=64)\n", "width", given)
    assert place.arguments(7, given) == expected


def test_an_option_without_a_number_is_given_as_an_argument() -> None:
    place = find(PARSER + "p.add_argument('--width', type=int, required=True)\n", "width")
    assert place.value is None
    assert place.arguments(7, ("--lr=1",)) == ("--lr=1", "--width=7")


def test_constants_behind_a_configurator_are_given_as_arguments() -> None:
    source = "n_embd = 768\ndropout = 0.0\nexec(open('configurator.py').read())\n"
    given = ("config/small.py", "--n_embd=384")
    assert find(source, "n_embd", given).arguments(7, given) == (*given, "--n_embd=7")
    # It refuses a number of another type.
    assert find(source, "dropout", given).arguments(1, given) == (*given, "--dropout=1.0")


def test_several_places_are_named_with_the_way_to_choose() -> None:
    with pytest.raises(UsageError, match="width is set in 2 places") as raised:
        find("a(width=32)\nb(width=64)\n", "width")
    assert "train.py line 1 (`width = 32`)" in raised.value.message
    assert "--vary width@1=" in raised.value.hint


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(UsageError, match="sets no number called hidden_dims") as raised:
        find("hidden_dim = 64\n", "hidden_dims")
    assert "Did you mean hidden_dim?" in raised.value.hint
    with pytest.raises(UsageError, match="not set there") as raised:
        find("hidden_dim = 64\n", "hidden_dim@7")
    assert "line 1" in raised.value.hint


def test_a_computed_value_is_no_place() -> None:
    with pytest.raises(UsageError, match="sets no number called width"):
        find("width = int(input())\n", "width")


@pytest.mark.parametrize("text", ["", "1width", "width@", "width@model.py", "a-b c"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        AskedName.parse(text)


def test_names_are_listed_with_options_first() -> None:
    source = PARSER + "f(padding=1)\nwidth = 64\np.add_argument('--lr', type=float, default=0.1)\n"
    found = number_places(SourceText.of(SCRIPT, source), (), lambda path: None)
    assert names(found) == ("lr", "width", "padding")


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ((), 768),
        (("config/small.py",), 384),
        (("config/small.py", "--n_embd=64"), 64),
        (("--n_embd=64", "config/small.py"), 384),
    ],
)
def test_the_number_in_force_behind_a_configurator(given: tuple[str, ...], value: int) -> None:
    source = "n_embd = 768\nexec(open('configurator.py').read())\n"
    place = find(source, "n_embd", given, {"config/small.py": "n_embd = 384\n"})
    assert place.value == value
    assert place.arguments(7, given) == (*given, "--n_embd=7")


def test_the_number_in_force_of_an_option() -> None:
    source = PARSER + "p.add_argument('--width', type=int, default=64)\n"
    assert find(source, "width").value == 64
    assert find(source, "width", ("--width", "8", "--width=16")).value == 16
