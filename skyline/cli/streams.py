"""Output: data go to stdout, remarks about them to stderr, and files are written completely or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from skyline import whole_file
from skyline.errors import UsageError
from skyline.foreign_text import clean_console, cleaned

if TYPE_CHECKING:
    from rich.console import Console

    from skyline.report.document import Document


def data_console() -> Console:
    """The console for reports. Without a terminal it is plain text, 100 columns wide unless COLUMNS is set."""
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 100
    return clean_console(file=sys.stdout, highlight=False, width=width)


def say(message: str, *, quiet: bool = False) -> None:
    """Print a remark for the user on stderr, separate from the data."""
    if not quiet:
        print(cleaned(message), file=sys.stderr, flush=True)


def tell(text: str = "") -> None:
    """Print a line of the requested answer on stdout."""
    print(cleaned(text), flush=True)


def deliver(report: object, page: Callable[[], Document], json: str | None) -> None:
    """Write a report as JSON to the target of ``--json``. Print its page unless the JSON goes to stdout."""
    if json is not None:
        write_data(json, encoded(report))
    if json != "-":
        from skyline.report.terminal import print_document

        print_document(page(), data_console())


def write_page(target: str | None, page: Document, title: str, kind: str, report: object) -> None:
    """Write the page of a report as one HTML file if ``--html`` names a file."""
    if target is None:
        return
    from skyline.report import html

    names = html.PageNames(title, "", kind.capitalize())
    write_whole(Path(target), html.render_report(page, names, kind, report).encode("utf-8"))


def encoded(report: object) -> bytes:
    """A report as a line of JSON."""
    import msgspec

    return msgspec.json.encode(report) + b"\n"


def write_data(target: str, data: bytes, *, overwrite: bool = True) -> None:
    """Write to the file ``target``, or to stdout for ``-``. Raises UsageError if that fails."""
    if target == "-":
        sys.stdout.flush()
        if sys.stdout.isatty():
            # On a terminal a person reads the data. A program gets the bytes unchanged.
            data = cleaned(data.decode("utf-8", "replace")).encode("utf-8", "replace")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    if path.exists() and not overwrite and not whole_file.is_special(path):
        raise UsageError(
            f"{target} exists already", hint="Choose another name, or overwrite it with --force."
        )
    write_whole(path, data)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file in one step. If that fails, raises UsageError and leaves the file unchanged."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="Name a file in it.")
    try:
        whole_file.write_whole(path, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
