"""Which program a command line is about: a file, a module, or what torchrun was to start."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.interpreter import module_file
from skyline.capture.request import CaptureRequest
from skyline.cli.command_line import parse_after_names
from skyline.errors import UsageError
from skyline.launchers import accelerate
from skyline.launchers.launch import Launch, launch_of, launched


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        ("train.py --lr 1", Launch("train.py", "", ("--lr", "1"))),
        ("-m package.train -m x", Launch("", "package.train", ("-m", "x"))),
        ("torchrun --nproc-per-node=2 train.py a", Launch("train.py", "", ("a",), 2)),
        (
            "torchrun --standalone --nnodes 1 --nproc_per_node 4 -m p.train a",
            Launch("", "p.train", ("a",), 4),
        ),
        (
            "-m torch.distributed.run --nproc-per-node 2 --master-port 1 train.py",
            Launch("train.py", "", (), 2),
        ),
        (
            "accelerate launch --num_processes 2 --cpu --mixed_precision bf16 train.py --cpu",
            Launch(
                "train.py",
                "",
                ("--cpu",),
                1,
                (("ACCELERATE_USE_CPU", "true"), ("ACCELERATE_MIXED_PRECISION", "bf16")),
            ),
        ),
        ("accelerate launch --num_processes=2 -m p.train a", Launch("", "p.train", ("a",), 2)),
        ("-m accelerate.commands.launch --num_processes 2 train.py", Launch("train.py", "", (), 2)),
        (
            "deepspeed --num_gpus 2 train.py --lr 1",
            Launch("train.py", "", ("--local_rank=0", "--lr", "1"), 2, first=("--local_rank=0",)),
        ),
        ("deepspeed --no_local_rank --num_gpus=2 train.py", Launch("train.py", "", (), 2)),
    ],
)
def test_launch(words: str, launch: Launch) -> None:
    assert launch_of(words.split()) == launch


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no script"),
        ("-m", "needs the name of a module"),
        ("torchrun --nproc-per-node gpu train.py", "a number of processes"),
        ("torchrun --nnodes 2 train.py", "one machine"),
        ("torchrun --standalone", "no script"),
        ("accelerate config", "starts no training"),
        ("accelerate launch --num_machines 2 train.py", "one machine"),
        ("accelerate launch --use_deepspeed train.py", "not possible yet"),
        ("accelerate launch --config_file absent.yaml train.py", "does not exist"),
        ("deepspeed --num_nodes 2 train.py", "one machine"),
        ("deepspeed --include localhost:0 train.py", "number of processes"),
        ("conda run -n nowhere --cwd / python train.py", "changes the folder"),
    ],
)
def test_what_cannot_be_launched(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        launch_of(words.split())


def test_the_file_of_a_module(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name in ("__init__.py", "train.py"):
        (package / name).touch()

    assert module_file("package.train", tmp_path) == package / "train.py"
    with pytest.raises(UsageError, match="without a __main__ module"):
        module_file("package", tmp_path)
    (package / "__main__.py").touch()
    assert module_file("package", tmp_path) == package / "__main__.py"
    with pytest.raises(UsageError, match="There is no module other"):
        module_file("other", tmp_path)
    with pytest.raises(UsageError, match="not the name of a module"):
        module_file("package/train.py", tmp_path)


def test_the_script_or_module_after_python_is_read():
    assert launch_of(["python", "-u", "train.py", "--lr", "1"]) == Launch("train.py", "", ("--lr", "1"))
    assert launch_of(["python3.12", "-m", "package.train", "x"]) == Launch("", "package.train", ("x",))


def test_a_single_process_of_torchrun_finds_its_group_in_the_environment():
    launch = launch_of(["torchrun", "train.py"])
    variables = dict(launch.variables)
    assert (launch.ranks, variables["RANK"], variables["WORLD_SIZE"]) == (1, "0", "1")
    assert variables["MASTER_PORT"].isdigit()


@pytest.fixture
def no_config_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_configuration_of_accelerate_is_read(no_config_of_mine: Path) -> None:
    config = "use_cpu: false\nmixed_precision: 'bf16'  # a comment\nnum_processes: 3\n"
    folder = no_config_of_mine / "home" / "accelerate"
    folder.mkdir(parents=True)
    (folder / "default_config.yaml").write_text(config)
    launch = launch_of(["accelerate", "launch", "train.py"])
    assert launch.ranks == 3
    assert dict(launch.variables) == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    # An option goes over the file.
    launch = launch_of(
        ["accelerate", "launch", "--num_processes", "1", "--mixed_precision", "no", "train.py"]
    )
    assert (launch.ranks, dict(launch.variables)["ACCELERATE_MIXED_PRECISION"]) == (1, "no")


def test_a_configuration_for_a_plugin_is_refused(no_config_of_mine: Path) -> None:
    path = no_config_of_mine / "own.yaml"
    path.write_text("distributed_type: FSDP\nnum_processes: 2\n")
    with pytest.raises(UsageError, match="--use-fsdp is not supported"):
        launch_of(["accelerate", "launch", "--config_file", str(path), "train.py"])


def test_the_variables_are_those_that_accelerate_sets(no_config_of_mine: Path) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    script = no_config_of_mine / "show.py"
    script.write_text(
        "import json, os\nprint(json.dumps({k: v for k, v in os.environ.items() if k.startswith('ACCELERATE_')}))\n"
    )
    words = ["launch", "--cpu", "--num_processes", "1", "--mixed_precision", "bf16"]
    words += ["--dynamo_backend", "no", str(script)]
    ran = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.accelerate_cli", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    theirs = json.loads(ran.stdout.strip().splitlines()[-1])
    ours = dict(launch_of(["accelerate", *words]).variables)
    assert {name: value.lower() for name, value in ours.items()} == {
        name: theirs[name].lower() for name in ours if name in theirs
    }
    assert {"ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION"} <= ours.keys()


def test_options_of_accelerate_without_a_value_are_the_ones_that_it_has() -> None:
    launch = pytest.importorskip("accelerate.commands.launch", reason="accelerate is not installed")
    parser: argparse.ArgumentParser = launch.launch_command_parser()
    flags = {
        name.replace("_", "-")
        for action in parser._actions
        if action.nargs == 0
        for name in action.option_strings
    }
    assert flags - {"-m", "--module"} <= accelerate.FLAGS
    valued = {
        name.replace("_", "-")
        for action in parser._actions
        if action.nargs != 0
        for name in action.option_strings
    }
    assert not valued & accelerate.FLAGS


def test_what_is_nearer_to_the_script_wins(no_config_of_mine: Path) -> None:
    launch = launch_of(
        ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "p.train", "x"]
    )
    assert launch == Launch("", "p.train", ("x",), 2)


def test_uv_is_asked_for_its_interpreter_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = str(pytest.importorskip("uv", reason="uv is not installed").find_uv_bin())
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True, timeout=120
    )
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.10"\n'
    )
    (tmp_path / ".env").write_text("SIZE=16\n")
    monkeypatch.chdir(tmp_path)
    launch = launch_of(
        [
            uv,
            "run",
            "--no-sync",
            "--offline",
            "--env-file",
            ".env",
            "torchrun",
            "--nproc-per-node",
            "2",
            "train.py",
        ]
    )
    assert (launch.script, launch.ranks) == ("train.py", 2)
    assert Path(launch.interpreter or "").parent == tmp_path / ".venv" / "bin"
    assert dict(launch.variables)["SIZE"] == "16"


def test_a_tool_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="poetry is not on the PATH"):
        launch_of(["poetry", "run", "python", "train.py"])


def test_a_script_may_have_the_name_of_a_tool() -> None:
    assert launch_of(["uv", "train.py"]) == Launch("uv", "", ("train.py",))


def test_a_launcher_in_place_of_a_saved_profile_is_named_with_the_next_step(
    skyline: Callable[..., Any],
) -> None:
    ran = skyline("show", "torchrun")
    assert ran.code == 2
    assert "torchrun starts scripts" in ran.err
    assert "skyline show train.py" in ran.err


SHOWS_ITS_START = """\
import os, sys
names = ("ACCELERATE_MIXED_PRECISION", "WORLD_SIZE", "OF_THE_PROJECT")
sys.exit("started with " + " ".join(os.environ.get(name, "-") for name in names) + " " + " ".join(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("profile", ()),
        ("devices --gpu t4", ()),
        ("whatif", ("amp",)),
        ("verify", ("amp",)),
        ("apply", ("amp",)),
        ("tune", ()),
        ("sweep --vary SIZE=1,2", ()),
        ("check --base HEAD", ()),
        ("estimate --iterations 9", ()),
        ("plan --cluster dgx-a100", ()),
    ],
)
def test_a_launcher_stands_before_the_script_of_every_command(
    skyline: Callable[..., Any], tmp_path: Path, command: str, own: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text(SHOWS_ITS_START + "SIZE = 1\n")
    (tmp_path / "pyproject.toml").write_text('[tool.skyline]\nprofile.env = { OF_THE_PROJECT = "yes" }\n')
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "1"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    launcher = ("accelerate", "launch", "--num_processes", "2", "--mixed_precision", "bf16")
    ran = skyline(*command.split(), *launcher, "train.py", *own, "--lr", "1")
    assert "started with bf16 2 yes --lr 1" in ran.err + ran.out


def test_the_arguments_that_a_launcher_puts_first_stay_first() -> None:
    from skyline.cli.verify import make_parser

    words = ["-q", "deepspeed", "--num_gpus", "2", "train.py", "amp", "--rounds", "9", "--lr", "1"]
    options, arguments = parse_after_names(words, make_parser())
    assert (options.script, options.names, options.rounds, options.quiet) == ("train.py", ["amp"], 9, True)
    assert arguments == ("--local_rank=0", "--lr", "1")
    assert (options.launch.ranks, options.launcher) == (2, ("deepspeed", "--num_gpus", "2"))


def test_a_request_takes_ranks_interpreter_and_variables_of_its_launch() -> None:
    launch = Launch("train.py", "", (), 2, (("A", "launcher"), ("B", "launcher")), "/launcher/python")
    plain = launched(CaptureRequest(Path("train.py")), launch)
    assert (plain.ranks, plain.interpreter) == (2, "/launcher/python")
    given = CaptureRequest(Path("train.py"), interpreter="/own/python", variables=(("B", "own"),), ranks=3)
    assert launched(given, launch).interpreter == "/own/python"
    assert dict(launched(given, launch).variables) == {"A": "launcher", "B": "own"}
    assert launched(given, Launch("train.py", "", ())).ranks == 3
