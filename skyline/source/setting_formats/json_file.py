"""JSON, with the comments and trailing commas of JSON5 and JSONC."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skyline.source.setting_formats.entry import SettingEntry, unquoted

_TOKEN = re.compile(
    r"""(?x) "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | //[^\n]* | /\*.*?\*/ | (?<=\s)\#[^\n]* | [{}\[\],:]
    | [^\s{}\[\],:"'] [^{}\[\],:"'\n]* """,
    re.DOTALL,
)


def read(text: str) -> Iterator[SettingEntry]:
    """Values of ``{…}`` and ``[…]`` up to the closing bracket, token by token."""
    keys: list[str] = []
    kinds: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match.group().rstrip()
        if token.startswith(("//", "/*", "#")) or token == ":":
            continue
        if token in ("{", "["):
            kinds.append(token)
            keys.append("")
        elif token in ("}", "]"):
            if kinds:
                kinds.pop()
                keys.pop()
            if not kinds:
                return
        elif token == ",":
            if keys:
                keys[-1] = ""
        elif kinds and kinds[-1] == "{" and not keys[-1]:
            keys[-1] = unquoted(token)
        else:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - (text.rfind("\n", 0, match.start()) + 1)
            yield SettingEntry(line, column, tuple(key for key in keys if key), token)
