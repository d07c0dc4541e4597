"""Selection of the script, if the command line names none."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from skyline.bounded_read import open_regular
from skyline.cli.streams import say
from skyline_tui.clean_screen import CleanApp

READ_BYTES = 200_000


def training_scripts(folder: Path) -> list[Path]:
    """Scripts and notebooks in the folder and its direct subfolders that use torch and call backward."""
    found: list[Path] = []
    for path in (
        path for kind in ("*.py", "*.ipynb", "*/*.py", "*/*.ipynb") for path in sorted(folder.glob(kind))
    ):
        try:
            with open_regular(path) as file:
                text = file.read(READ_BYTES)
        except OSError:
            continue
        if b"torch" in text and b".backward(" in text:
            found.append(path)
    return found


def pick_script(folder: Path) -> Path | None:
    """The only candidate, or the user's choice; None if there is none, or after a cancellation."""
    found = training_scripts(folder)
    if not found:
        say(f"skyline tui: no training script in {folder}. Name one: skyline tui SCRIPT")
        return None
    return found[0] if len(found) == 1 else PickApp(folder, found).run()


class PickApp(CleanApp[Path]):
    """A list of scripts; Enter takes one."""

    CSS = """
    Static { padding: 1 2; }
    OptionList { margin: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape", "quit", "Quit", id="quit")]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, folder: Path, scripts: list[Path]) -> None:
        super().__init__()
        self._folder = folder
        self._scripts = scripts

    def compose(self) -> ComposeResult:
        yield Static(Content.assemble(("Skyline", "bold"), "   which script do you want to profile?"))
        yield OptionList(*(Option(Content(str(path.relative_to(self._folder)))) for path in self._scripts))
        yield Footer()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        self.exit(self._scripts[message.option_index])
