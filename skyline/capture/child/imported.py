"""Which files of the person's a run has read as code: a change of any of them is a change of the script."""

from __future__ import annotations

import os
import sys
import types

from . import user_code


def imported_files():
    """Real paths of the person's modules that are imported now, the script itself left out."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = _source_of(module)
        if name != "__main__" and path and path.endswith(".py") and user_code.is_user_file(path):
            found[os.path.realpath(path)] = True
    return list(found)


def _source_of(module):
    if not issubclass(type(module), types.ModuleType):
        return None
    # Not getattr: modules that load lazily would load now.
    names = object.__getattribute__(module, "__dict__")
    origin = getattr(names.get("__spec__"), "origin", None)
    path = names.get("__file__") or origin
    return path if isinstance(path, str) else None
