"""A script's own arguments have precedence over the values in its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.errors import RewriteRefused
from skyline.source.batch_size import find, with_argument, with_value
from skyline.source.knob import KnobKind, KnobSearch
from skyline.source.text import SourceText

SCRIPT = "/project/train.py"
ARGUMENTS = "import argparse\np = argparse.ArgumentParser()\n"


def search(
    source: str, arguments: tuple[str, ...] = (), others: dict[str, str] | None = None
) -> tuple[SourceText, KnobSearch]:
    text = SourceText.of(SCRIPT, source)

    def read(path: Path) -> SourceText | None:
        found = (others or {}).get(path.as_posix().removeprefix("/project/"))
        return SourceText.of(str(path), found) if found is not None else None

    return text, find(text, arguments, read)


ARGPARSE = (
    ARGUMENTS
    + "p.add_argument('data', nargs='?')\np.add_argument('-b', '--batch-size', type=int, default=64)\n"
    "p.add_argument('--best', action='store_true')\np.add_argument('-v', action='store_true')\n"
    "p.add_argument('--lr', type=float)\na = p.parse_args()\nl = DataLoader(d, a.batch_size)\n"
)


@pytest.mark.parametrize(
    ("arguments", "value", "index", "changed"),
    [
        (("--batch-size", "16"), 16, 1, ("--batch-size", "7")),
        (("--batch-size=16",), 16, 0, ("--batch-size=7",)),
        (("-b16",), 16, 0, ("-b7",)),
        (("-b", "16"), 16, 1, ("-b", "7")),
        (("-vb16",), 16, 0, ("-vb7",)),
        (("--batch", "16"), 16, 1, ("--batch", "7")),
        (("--ba=16", "--lr", "16"), 16, 0, ("--ba=7", "--lr", "16")),
        (("-b", "8", "x", "-b", "16"), 16, 4, ("-b", "8", "x", "-b", "7")),
        (("--lr", "16", "-b", "16", "--best"), 16, 3, ("--lr", "16", "-b", "7", "--best")),
    ],
)
def test_the_command_line_is_the_knob_where_it_decides(
    arguments: tuple[str, ...], value: int, index: int, changed: tuple[str, ...]
) -> None:
    text, found = search(ARGPARSE, arguments)
    knob = found.best
    assert knob is not None
    assert (knob.kind, knob.value, knob.argument_index) == (KnobKind.COMMAND_LINE, value, index)
    assert text.at(knob.span) == "64"
    assert with_argument(knob, arguments, 7) == changed
    with pytest.raises(RewriteRefused, match="command line"):
        with_value(knob, text, 7)


@pytest.mark.parametrize("arguments", [("--lr", "16"), ("--b", "16"), ("--", "-b", "16"), ("16",)])
def test_other_arguments_leave_the_default_in_force(arguments: tuple[str, ...]) -> None:
    _, found = search(ARGPARSE, arguments)
    assert found.best is not None
    assert (found.best.kind, found.best.value) == (KnobKind.ARGPARSE_DEFAULT, 64)
    with pytest.raises(RewriteRefused):
        with_argument(found.best, arguments, 7)


def test_a_required_option_is_set_on_the_command_line_alone() -> None:
    source = ARGUMENTS + "p.add_argument('--batch-size', type=int, required=True)\n"
    source += "l = DataLoader(d, p.parse_args().batch_size)\n"
    _, found = search(source, ("--batch-size", "16"))
    assert found.best is not None
    assert (found.best.kind, found.best.value) == (KnobKind.COMMAND_LINE, 16)
    assert search(source)[1].best is None


TRAINER = (
    "import transformers, own\n"
    "class Options(transformers.TrainingArguments):\n    length: int = 512\n"
    "parser = transformers.HfArgumentParser(Options)\n"
    "transformers.Trainer(args=parser.parse_args_into_dataclasses()[0]).train()\n"
)


def test_an_option_of_a_librarys_own_has_its_place_at_the_parser() -> None:
    arguments = ("--output_dir", "out", "--per_device_train_batch_size", "16")
    others = {"own.py": "def asked(texts, batch_size=1):\n    return texts[:batch_size]\n"}
    text, found = search(TRAINER, (*arguments, "--per_device_eval_batch_size", "4"), others)
    knob = found.best
    assert knob is not None
    assert (knob.kind, knob.value, knob.argument_index) == (KnobKind.COMMAND_LINE, 16, 3)
    assert (knob.name, text.at(knob.span)) == (
        "per_device_train_batch_size",
        "transformers.HfArgumentParser(Options)",
    )
    assert with_argument(knob, arguments, 7)[3] == "7"
    unused = search(TRAINER, arguments)[1].best
    assert unused is not None
    assert unused.value == 16
    assert search(TRAINER)[1].best is None


def test_an_option_that_the_source_reads_has_its_place_there() -> None:
    source = "import hydra\n" + ARGUMENTS + "x = cfg.test.size\nl = DataLoader(d, cfg.train.batch_size)\n"
    text, found = search(source, ("train.batch_size=16",))
    assert found.best is not None
    assert text.at(found.best.span) == "cfg.train.batch_size"


CONFIGURATOR = "batch_size = 12\nexec(open('configurator.py').read())\nx = torch.randint(n, (batch_size,))\n"


def test_a_configurators_arguments() -> None:
    _, found = search(CONFIGURATOR, ("--device=cpu", "--batch_size=16"))
    assert found.best is not None
    assert (found.best.kind, found.best.value, found.best.argument_index) == (KnobKind.COMMAND_LINE, 16, 1)
    assert with_argument(found.best, ("--device=cpu", "--batch_size=16"), 7)[1] == "--batch_size=7"
    _, found = search(CONFIGURATOR, ("--batch_size", "16"))
    assert found.best is not None
    assert found.best.kind is KnobKind.CONSTANT


def test_a_configurators_file_hides_the_scripts_constant() -> None:
    _, found = search(CONFIGURATOR, ("config/small.py",), {"config/small.py": "lr = 1\nbatch_size = 64\n"})
    assert [(knob.value, knob.span.file) for knob in found.candidates] == [
        (64, "/project/config/small.py"),
        (12, SCRIPT),
    ]


def test_the_trail_tells_the_way() -> None:
    _, found = search(ARGPARSE)
    assert found.best is not None
    assert found.best.trail == ("DataLoader(d, a.batch_size)", "--batch-size")
