"""Where torch.compile had to leave a graph and go on in Python, as it tells itself."""

from __future__ import annotations

import os
import sys

from . import user_code

_MOST = 50
_LONGEST = 200


def graph_breaks():
    """The places as rows of ``skyline.trace.CallFact``, each once; none where nothing was compiled."""
    utils = sys.modules.get("torch._dynamo.utils")
    rows = []
    for told in list(getattr(utils, "graph_break_reasons", None) or ())[:_MOST]:
        row = {
            "name": "graph break",
            "per_iteration": 0.0,
            "line": _line(getattr(told, "user_stack", None)),
            "options": {"reason": _plain(str(getattr(told, "reason", "")))},
        }
        if row not in rows:
            rows.append(row)
    return rows


def _line(stack):
    """The innermost of these frames that is the person's, or None."""
    for frame in reversed(list(stack or ())):
        if user_code.is_user_file(frame.filename):
            return {"file": os.path.realpath(frame.filename), "line": frame.lineno, "function": frame.name}
    return None


def _plain(reason):
    """Its first line; explanations and hints follow in further ones."""
    if reason.startswith("generic_jump"):
        return "a branch depends on the numbers in a tensor"
    return reason.strip().split("\n")[0].strip()[:_LONGEST]
