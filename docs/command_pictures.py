"""Draws the commands that ask about time, money and the real run, on a public script.

    python docs/command_pictures.py --repository CHECKOUT --script PATH

A copy of the checkout gets two commits more: one changes a comment, the other one computes the forward pass twice.
`skyline estimate`, `tune`, `check` and `history` run there for real, and the beginning of their output becomes an SVG
each.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from terminal_picture import terminal_picture

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH = 110
_COMMANDS = ("estimate", "tune", "check", "history")
_GIT = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A copy of a public repository, and the script of it that the pictures are about.

    ``folder`` is where the commands run, and ``environment`` what they get.
    """

    folder: Path
    script: str
    environment: dict[str, str]

    def run(self, command: list[str]) -> str:
        """The output of ``skyline COMMAND``, with colours. Its exit code counts for nothing: 1 says over a limit."""
        done = subprocess.run(
            [sys.executable, "-m", "skyline", *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout.strip():
            raise RuntimeError(f"skyline {shlex.join(command)} printed nothing: {done.stderr[-2000:]}")
        return done.stdout

    def commit(self, message: str, old: str, new: str) -> None:
        """Replace a text of the script, once, and commit."""
        path = self.folder / self.script
        source = path.read_text(encoding="utf-8")
        if old not in source:
            raise ValueError(f"{path.name} does not contain {old!r}")
        path.write_text(source.replace(old, new, 1), encoding="utf-8")
        subprocess.run(["git", *_GIT, "commit", "-qam", message], cwd=self.folder, check=True)


def pictures(
    workspace: Workspace, arguments: list[str], slow: tuple[str, str], length: list[str], wanted: set[str]
) -> dict[str, str]:
    """The SVG of each wanted command by name.

    ``slow`` is the text that the last commit replaces and what it becomes. ``length`` is the option of
    ``skyline estimate`` that gives the length of the training.
    """
    script = [workspace.script, *arguments]
    commands = {
        "estimate": ["estimate", *length, *script],
        "tune": ["tune", "--budget", "2m", *script],
        "check": ["check", "--base", "HEAD~1", *script],
        "history": ["history", workspace.script],
    }
    if wanted != {"check"}:
        workspace.run(["profile", *script])
    shown = {name: workspace.run(commands[name]) for name in ("estimate", "tune") if name in wanted}
    first = (workspace.folder / workspace.script).read_text(encoding="utf-8").splitlines()[0]
    workspace.commit("Say what this is", first, f"# Trains.\n{first}")
    workspace.commit("Regularize", *slow)
    if "history" in wanted:
        workspace.run(["profile", *script])
    shown |= {name: workspace.run(commands[name]) for name in ("check", "history") if name in wanted}
    return {
        name: terminal_picture(
            [(f"skyline {shlex.join(commands[name])}", _without_paths(text, workspace.folder))],
            f"skyline {name}",
            WIDTH,
        )
        for name, text in shown.items()
    }


def _without_paths(text: str, folder: Path) -> str:
    return re.sub(re.escape(f"{folder}/"), "", text)


def main() -> int:
    """Copy the checkout, run the commands, write the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", type=Path, required=True, help="a clone of the public repository")
    parser.add_argument("--folder", default=".", help="folder of the script within the repository")
    parser.add_argument("--script", required=True, help="path of the script within that folder")
    parser.add_argument("--arguments", default="", help="arguments of the script, as one text")
    parser.add_argument(
        "--slow", nargs=2, required=True, metavar=("OLD", "NEW"), help="the slow commit's change"
    )
    parser.add_argument(
        "--length", default="--epochs 90", help="length of the training, for skyline estimate"
    )
    parser.add_argument("--only", choices=_COMMANDS, nargs="+", default=_COMMANDS, help="these pictures only")
    parser.add_argument("--images", type=Path, default=IMAGES, help="folder for the pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place).resolve() / options.repository.name
        subprocess.run(["git", "clone", "-q", str(options.repository.resolve()), str(copy)], check=True)
        environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
        workspace = Workspace(copy / options.folder, options.script, environment)
        made = pictures(
            workspace,
            shlex.split(options.arguments),
            tuple(options.slow),
            shlex.split(options.length),
            set(options.only),
        )
    options.images.mkdir(parents=True, exist_ok=True)
    for name, svg in made.items():
        (options.images / f"command-{name}.svg").write_text(svg, encoding="utf-8")
    print(f"wrote {', '.join(made)} to {options.images}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
