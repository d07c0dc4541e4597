"""INI, properties and ``.env``: lines of ``key = value`` under sections."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skyline.source.setting_formats.entry import SettingEntry
from skyline.source.setting_formats.toml_file import SECTION

_COMMENT = re.compile(r"(?:^|\s)[#;].*$")
_ENTRY = re.compile(r"^\s*(?:export\s+)?(?P<key>[\w. -]+?)\s*[=:]\s*(?P<value>\S.*?)\s*$")


def read(text: str) -> Iterator[SettingEntry]:
    """Every entry, with its section."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := SECTION.match(line):
            section = (header["name"],)
        elif not line.lstrip().startswith(("#", ";")) and (match := _ENTRY.match(_COMMENT.sub("", line))):
            yield SettingEntry(number, match.start("value"), (*section, match["key"]), match["value"])
