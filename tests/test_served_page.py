"""The script of the page of ``skyline serve`` is kept built, since Python packages are built without Node."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

EXTENSION = Path(__file__).resolve().parent.parent / "extension"
BUILT = EXTENSION.parent / "skyline" / "browser" / "static" / "served-page.js"


def test_it_is_built_from_the_sources_as_they_are() -> None:
    head = BUILT.read_text(encoding="utf-8").partition("*/")[0]
    (sources,) = re.findall(r"^Sources: (.+)$", head, flags=re.MULTILINE)
    (checksum,) = re.findall(r"^SHA-256: ([0-9a-f]{64})$", head, flags=re.MULTILINE)
    texts = [(EXTENSION / name).read_bytes() for name in sources.split()]
    assert len(texts) > 10
    assert hashlib.sha256(b"".join(texts)).hexdigest() == checksum, (
        "a source was changed since: run `make page`"
    )
    chart = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))["dependencies"]["uplot"]
    assert f"With uPlot {chart}:" in head, "run `make page`"
