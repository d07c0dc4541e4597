"""Notebooks, which cannot be profiled yet: their cells are no script that runs from beginning to end."""

from __future__ import annotations

NO_NOTEBOOKS = "Notebooks cannot be profiled yet"
NOTEBOOK_HINT = "Put the training loop into a script: jupyter nbconvert --to script makes one of a notebook."


def is_notebook(uri: str) -> bool:
    """Whether a document is a notebook, or a cell of one."""
    return uri.startswith("vscode-notebook-cell:") or uri.partition("#")[0].endswith(".ipynb")
