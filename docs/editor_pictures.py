"""Draws the pictures of the pages about editors in a terminal: a real editor, over a recorded profile.

Needs ``pip install pyte``. ``python docs/editor_pictures.py neovim emacs`` writes ``docs/images/neovim.svg`` and
``docs/images/emacs.svg``.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from io import StringIO
from itertools import groupby
from pathlib import Path

import msgspec
import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text
from terminal_picture import THEME, without_web_fonts

from skyline.trace import store
from skyline.trace.profile import Profile

REPOSITORY = Path(__file__).resolve().parent.parent
RECORDED = REPOSITORY / "tests" / "data" / "linear.profile.json.gz"
COLUMNS, ROWS = 116, 32
WAIT_S = 60.0
_STILL_S = 0.7
"""Time without output after which an editor has drawn."""
_NAMES = {"brown": "yellow", "default": "default"}


class Editor:
    """A program on a pseudo-terminal, and the screen that it draws."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._end = pty.fork()
        if self._pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(folder)
            os.execvpe(command[0], list(command), environment)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._end, keys.encode())

    def until(self, *words: str) -> None:
        """Wait until all of these are on the screen, and nothing is drawn any more."""
        deadline = time.monotonic() + WAIT_S
        while not all(any(word in row for row in self.screen.display) for word in words):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {words} in:\n" + "\n".join(self.screen.display))
            self._read(0.2)
        while self._read(_STILL_S):
            pass

    def close(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._end)

    def picture(self, title: str) -> str:
        """The screen as SVG."""
        console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, highlight=False)
        for row in range(ROWS):
            cells = (self.screen.buffer[row][column] for column in range(COLUMNS))
            runs = groupby(cells, key=_style)
            line = Text.assemble(*(("".join(cell.data for cell in run), style) for style, run in runs))
            console.print(line, no_wrap=True, crop=True)
        return without_web_fonts(console.export_svg(title=title, theme=THEME))

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], timeout_s)
        if not ready:
            return False
        self._stream.feed(os.read(self._end, 1 << 16))
        return True


def _style(cell: Char) -> Style:
    front, back = (_colour(name) for name in (cell.fg, cell.bg))
    return Style(color=front, bgcolor=back, bold=cell.bold, italic=cell.italics, reverse=cell.reverse)


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    return (
        f"#{name}"
        if re.fullmatch(r"[0-9a-f]{6}", name)
        else _NAMES.get(name, name.replace("bright", "bright_"))
    )


@dataclass(frozen=True)
class Desk:
    """A project with a profiled script, and a home folder for an editor."""

    home: Path
    script: Path

    @property
    def environment(self) -> dict[str, str]:
        """That of an editor with no other configuration, and ``skyline`` on its path."""
        names = ("config", "data", "state", "cache")
        own = {f"XDG_{name.upper()}_HOME": str(self.home / name) for name in names}
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        look = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        return {**os.environ, **own, **look, "HOME": str(self.home), "PATH": path}

    def snippets(self, page: str, language: str) -> list[str]:
        """The configuration that a page shows."""
        text = (REPOSITORY / "docs" / "editors" / page).read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def desk(folder: Path) -> Desk:
    """The recorded profile as that of a script in the folder."""
    home, root = folder / "home", folder / "project"
    home.mkdir()
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    text = gzip.decompress(RECORDED.read_bytes()).decode().replace("/tmp/project", str(root))
    profile = msgspec.json.decode(text, type=Profile)
    (root / "train.py").write_text(profile.sources[0].text)
    store.save(changed(profile, working_directory=str(root)))
    return Desk(home, root / "train.py")


def neovim(at: Desk) -> str:
    """The plug-in: hints and the lens in the code, and the bars over it."""
    *_, use = at.snippets("neovim.md", "lua")
    place = at.home / "data" / "nvim" / "site" / "pack" / "skyline" / "start"
    place.mkdir(parents=True)
    (place / "skyline").symlink_to(REPOSITORY / "extension" / "neovim")
    (at.home / "config" / "nvim").mkdir(parents=True)
    (at.home / "config" / "nvim" / "init.lua").write_text(
        f"vim.o.termguicolors, vim.o.number, vim.o.swapfile = true, true, false\n{use}"
    )
    editor = Editor(("nvim", at.script.name), at.script.parent, at.environment)
    try:
        editor.until("per iteration", "ms")
        editor.send(":Skyline\r")
        editor.until("throughput", "[ ]")
        editor.send("lll")
        editor.until("->", "speed")
        return editor.picture("nvim train.py")
    finally:
        editor.close()


def emacs(at: Desk) -> str:
    """The configuration for lsp-mode: the lens above the loop, and the details of a line."""
    (use, *_) = at.snippets("emacs.md", "elisp")
    (at.home / ".emacs.d").mkdir()
    (at.home / ".emacs.d" / "init.el").write_text(
        "(package-initialize)\n(require 'lsp-mode)\n"
        "(setq inhibit-startup-screen t lsp-auto-guess-root t lsp-warn-no-matched-clients nil)\n"
        "(setq native-comp-async-report-warnings-errors nil lsp-headerline-breadcrumb-enable nil)\n"
        f"(menu-bar-mode -1)\n(load-theme 'wombat t)\n(global-display-line-numbers-mode)\n{use}"
    )
    editor = Editor(("emacs", "-nw", at.script.name), at.script.parent, at.environment)
    try:
        editor.until("per iteration")
        editor.send("\x1bg" + "g12\r")
        editor.send("\x1bxlsp-describe-thing-at-point\r")
        editor.until("measured")
        return editor.picture("emacs -nw train.py")
    finally:
        editor.close()


PICTURES: dict[str, Callable[[Desk], str]] = {"neovim": neovim, "emacs": emacs}


def main() -> int:
    """Draw the pictures that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], help="neovim, emacs")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "docs" / "images", help="folder for them")
    options = parser.parse_args()
    for name in options.names or PICTURES:
        with tempfile.TemporaryDirectory(prefix="skyline-") as folder:
            picture = PICTURES[name](desk(Path(folder).resolve()))
        (options.folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
