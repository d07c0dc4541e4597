"""Exports a profile to a file in a format that other programs open."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.report import html
from skyline.report.perfetto import chrome_trace
from skyline.report.speedscope import speedscope
from skyline.whole_file import write_whole
from skyline_lsp.state import Prepared

Format = Literal["html", "json", "perfetto", "speedscope"]

_SUFFIXES: dict[Format, str] = {
    "html": ".html",
    "json": ".json",
    "perfetto": ".perfetto.json.gz",
    "speedscope": ".speedscope.json",
}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of ``skyline.export``. ``path`` is relative to the script's folder; its default is the script's name."""

    format: Format = "html"
    path: str | None = None


def default_name(script: Path, format: Format) -> str:
    """The default file name of an export in this format."""
    return f"{script.stem}.skyline{_SUFFIXES[format]}"


def write(prepared: Prepared, format: Format, path: Path) -> None:
    """Write the profile, replacing an existing file. Raises UsageError if it cannot be written."""
    data = _encode(prepared, format)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}", hint="Choose another file."
        ) from error


def _encode(prepared: Prepared, format: Format) -> bytes:
    if format == "html":
        return html.render(prepared.report, prepared.whatifs, prepared.profile.sources).encode()
    if format == "perfetto":
        return chrome_trace(prepared.profile, prepared.analysis.timeline)
    if format == "speedscope":
        return speedscope(prepared.profile)
    return msgspec.json.encode(prepared.report)
