"""``skyline completion``: the script that completes command lines in a shell."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.cli.command_line import parser
from skyline.cli.streams import tell
from skyline.errors import ExitCode

_EXAMPLES = """\
  eval "$(skyline completion bash)"                      # in ~/.bashrc
  eval "$(skyline completion zsh)"                       # in ~/.zshrc
  skyline completion fish > ~/.config/fish/completions/skyline.fish"""


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    command = parser(
        "completion",
        "SHELL",
        "Print a script that completes commands, options, what-ifs, GPUs and clusters in your\nshell.",
        _EXAMPLES,
    )
    command.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    options = command.parse_args(arguments)
    from skyline.cli.completions.scripts import SHELLS
    from skyline.cli.completions.words import command_words
    from skyline.cli.main import COMMANDS

    # Other programs start it, never a person.
    shown = {name: summary for name, summary in COMMANDS.items() if name != "receive"}
    tell(SHELLS[options.shell](command_words(shown)).rstrip("\n"))
    return int(ExitCode.OK)
