"""Files of settings that the script opens: one of them may set its batch size, and may be given another text."""

from __future__ import annotations

import os
import sys
import tempfile

from . import user_code

# Kept from before the script could put something else in its place.
_open = open

_SUFFIXES = (
    *(".yaml", ".yml", ".json", ".json5", ".jsonc", ".toml", ".ini", ".cfg", ".conf", ".properties", ".env"),
    ".py",
)
_MOST = 64
_read = {}
_served = {}


def serve(texts, scratch):
    """Have the script read these texts (real path -> text) in place of the files, from copies in ``scratch``."""
    if not texts:
        return
    folder = tempfile.mkdtemp(prefix="read-", dir=scratch)
    for number, (path, text) in enumerate(texts.items()):
        copy = os.path.join(folder, f"{number}{os.path.splitext(path)[1]}")
        with _open(copy, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
        _served[path] = copy


def opened(path):
    """A file is opened for reading: gives the copy to read in its place, if there is one.

    Called at every such call, so that it does little for most.
    """
    text = path if isinstance(path, str) else os.fspath(path)
    if isinstance(text, bytes) or not (text.endswith(_SUFFIXES) or ".env" in text[-16:]):
        return None
    # Libraries read sources to show their lines; a script reads one to run it as its configuration.
    if text.endswith(".py") and not _is_scripts(sys._getframe(2).f_code.co_filename):
        return None
    text = os.path.abspath(text)
    # A file that is opened again comes last: the later of two files overrides the earlier one.
    _read.pop(text, None)
    if len(_read) < _MOST:
        _read[text] = True
    return _served.get(os.path.realpath(text))


def files():
    """Real paths of the person's, in the order in which they were opened last."""
    found = (os.path.realpath(path) for path in _read)
    return [path for path in dict.fromkeys(found) if user_code.is_user_file(path)]


def _is_scripts(caller):
    """True if code of this file is the person's, or a text that ``exec`` runs."""
    return user_code.is_user_file(caller) or (
        caller.startswith("<") and not caller.startswith(("<frozen", "<eval_with_key>"))
    )
