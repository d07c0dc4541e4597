"""Cuts off and changes a small file of each kind at every byte, and reads it with the product's own reader."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from fault_command import Lost
from fault_project import Project

from skyline.errors import SkylineError
from skyline.ledger.ledger import Ledger
from skyline.settings.pyproject import project_settings
from skyline.trace import store

SETTINGS = b'[tool.skyline]\nprofile.steps = 4\ndiagnostics.select = ["SKY"]\nprofile.timeout_s = 60.0\n'
_KEPT_ROWS = 4


def variants(sample: bytes, random: Random) -> Iterator[tuple[int, bytes]]:
    """The sample cut off at every byte, and with every byte changed."""
    for at in range(len(sample)):
        yield at, sample[:at]
        yield at, sample[:at] + bytes([sample[at] ^ random.randrange(1, 256)]) + sample[at + 1 :]


def read_all(sample: bytes, random: Random, read: Callable[[bytes], object]) -> str:
    """Read every variant. An error that is not the product's own counts as a loss."""
    refused = 0
    count = 0
    for at, content in variants(sample, random):
        count += 1
        try:
            read(content)
        except SkylineError:
            refused += 1
        except Exception as error:
            raise Lost(f"byte {at} of {len(sample)}: {error!r}") from error
    return f"{count} variants of {len(sample)} bytes: {refused} refused in words, the others read"


def profile_bytes(pack: Callable[[bytes], bytes]) -> Callable[[Project, Random], str]:
    """The fault for a profile with few records and times, as text or as stored on disk."""

    def inject(project: Project, random: Random) -> str:
        (path,) = project.folder.glob(f".skyline/*{store.SUFFIX}")
        document = json.loads(gzip.decompress(path.read_bytes()))
        for rows in ("records", "allocations"):
            document["trace"][rows] = document["trace"][rows][:_KEPT_ROWS]
        document = _short({**document, "trials": document["trials"][:1]})
        target = project.temporary / path.name

        def read(content: bytes) -> None:
            target.write_bytes(content)
            store.load(target)

        sample = pack(json.dumps(document).encode())
        read(sample)
        try:
            return read_all(sample, random, read)
        finally:
            target.unlink()

    return inject


def _short(value: Any) -> Any:
    """The document with only the first numbers of each list, because a profile has thousands of times."""
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, list):
        plain = all(isinstance(inner, (int, float)) for inner in value)
        return value[:_KEPT_ROWS] if plain else [_short(inner) for inner in value]
    return value


def settings_bytes(project: Project, random: Random) -> str:
    """The settings of a project. Unreadable parts are left out, with a message about the problem."""
    path = project.folder / "pyproject.toml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        project_settings(project.folder)

    try:
        return read_all(SETTINGS, random, read)
    finally:
        path.unlink()


def ledger_bytes(project: Project, random: Random) -> str:
    """A database with two entries."""
    ledger = Ledger(project.temporary / "ledger.sqlite3")
    for entry in Ledger(project.ledger).entries()[:2]:
        ledger.write(entry)
    sample = ledger.path.read_bytes()

    def read(content: bytes) -> None:
        ledger.path.write_bytes(content)
        ledger.entries()

    try:
        return read_all(sample, random, read)
    finally:
        ledger.path.unlink()


BYTE_FAULTS: dict[str, Callable[[Project, Random], str]] = {
    "every byte of a profile's text": profile_bytes(bytes),
    "every byte of a packed profile": profile_bytes(gzip.compress),
    "every byte of the settings": settings_bytes,
    "every byte of the ledger": ledger_bytes,
}
