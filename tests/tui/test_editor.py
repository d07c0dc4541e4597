from __future__ import annotations

import pytest

from skyline_tui.editor import editor_command


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"EDITOR": "vim"}, ("vim", "+7", "a b.py")),
        ({"EDITOR": "nano", "VISUAL": "emacs -nw"}, ("emacs", "-nw", "+7", "a b.py")),
        ({"EDITOR": "/usr/bin/hx"}, ("/usr/bin/hx", "a b.py:7")),
        ({"VISUAL": "code --wait"}, ("code", "--wait", "--goto", "a b.py:7")),
        ({"EDITOR": "'my editor' -x"}, ("my editor", "-x", "+7", "a b.py")),
    ],
)
def test_the_editor_opens_at_the_line(environment: dict[str, str], command: tuple[str, ...]) -> None:
    assert editor_command("a b.py", 7, environment) == command


def test_no_editor_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert editor_command("a.py", 1, {}) is None
