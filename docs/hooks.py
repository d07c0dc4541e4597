"""Hooks of MkDocs: the generated sections, and links that lead out of this folder.

Result pages of ``benchmarks/results`` become pages of the site; links to any other file lead to the repository.
"""

from __future__ import annotations

import os.path
import re
import sys
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
RESULTS = "benchmarks/results"
ON_SITE = "measured"
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the result pages of the benchmarks."""
    for path in sorted((REPOSITORY / RESULTS).glob("*.md")):
        if path.name != "README.md":
            text = path.read_text(encoding="utf-8")
            files.append(
                File.generated(
                    config, f"{ON_SITE}/{path.name}", content=text, inclusion=InclusionLevel.NOT_IN_NAV
                )
            )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill the generated sections, and lead links to where the site has their targets."""
    sys.path.insert(0, str(DOCS))
    try:
        from reference import filled
    finally:
        sys.path.remove(str(DOCS))
    here = PurePosixPath(page.file.src_uri)
    home = PurePosixPath(RESULTS) / here.name if here.parts[0] == ON_SITE else PurePosixPath("docs") / here
    return _LINK.sub(lambda link: _led(link, here, home, str(config.repo_url)), filled(markdown))


def _led(link: re.Match[str], here: PurePosixPath, home: PurePosixPath, repo_url: str) -> str:
    target, anchor = link[1], link[2] or ""
    if re.match(r"[a-z]+:", target):
        return link[0]
    path = PurePosixPath(os.path.normpath(home.parent / target))
    if path.parts[:1] == ("docs",) and home.parts[0] == "docs":
        return link[0]
    if path.parent == PurePosixPath(RESULTS) and path.suffix == ".md" and path.name != "README.md":
        found = PurePosixPath(ON_SITE) / path.name
    elif path.parts[:1] == ("docs",):
        found = PurePosixPath(*path.parts[1:])
    else:
        return f"]({repo_url}/blob/main/{path}{anchor})"
    return f"]({os.path.relpath(found, here.parent)}{anchor})"
