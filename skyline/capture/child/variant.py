"""The differences between a run and its script on disk: other texts of sources and files, other batch sizes.

It also notes the settings files that the script opens: one of them may set its batch size.
"""

from __future__ import annotations

import importlib.machinery
import inspect
import os
import sys
import tempfile

from . import user_code

# Bound at import, before the script can replace it.
_open = open

_SUFFIXES = (
    *(".yaml", ".yml", ".json", ".json5", ".jsonc", ".toml", ".ini", ".cfg", ".conf", ".properties", ".env"),
    ".py",
)
_MOST = 64
_read = {}
_served = {}


def serve_files(texts, scratch):
    """Make the script read these texts (real path -> text) instead of the files, from copies in ``scratch``."""
    if not texts:
        return
    folder = tempfile.mkdtemp(prefix="read-", dir=scratch)
    for number, (path, text) in enumerate(texts.items()):
        copy = os.path.join(folder, f"{number}{os.path.splitext(path)[1]}")
        with _open(copy, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
        _served[path] = copy


def opened(path):
    """Note a file that is opened for reading; returns the copy to read instead, or None.

    This is called at every open, so that it does little for most files.
    """
    text = path if isinstance(path, str) else os.fspath(path)
    if isinstance(text, bytes) or not (text.endswith(_SUFFIXES) or ".env" in text[-16:]):
        return None
    # Libraries read Python sources to show their lines; a script reads one to run it as its configuration.
    if text.endswith(".py") and not _is_scripts(sys._getframe(2).f_code.co_filename):
        return None
    text = os.path.abspath(text)
    # A file that is opened again moves to the end: the later of two settings files overrides the earlier one.
    _read.pop(text, None)
    if len(_read) < _MOST:
        _read[text] = True
    return _served.get(os.path.realpath(text))


def files():
    """Real paths of the opened user files, in the order of their last opening."""
    found = (os.path.realpath(path) for path in _read)
    return [path for path in dict.fromkeys(found) if user_code.is_user_file(path)]


def _is_scripts(caller):
    """True if this file is the user's code, or a text that ``exec`` runs."""
    return user_code.is_user_file(caller) or (
        caller.startswith("<") and not caller.startswith(("<frozen", "<eval_with_key>"))
    )


def resize_loaders(asked):
    """Give loaders another batch size. ``asked`` has their line (``file``, ``line``), their size and the new size."""
    if not asked:
        return
    from torch.utils.data import dataloader as loading

    init = loading.DataLoader.__init__
    signature = inspect.signature(init)

    def __init__(loader, *args, **kwargs):
        try:
            given = signature.bind(loader, *args, **kwargs)
        except TypeError:
            return init(loader, *args, **kwargs)
        if _made_there(asked):
            _resize(given.arguments, asked["size"], asked["wanted"])
        return init(*given.args, **given.kwargs)

    __init__.__wrapped__ = init
    __init__.__doc__ = init.__doc__
    loading.DataLoader.__init__ = __init__


def _made_there(asked):
    place = user_code.innermost_line()
    return place is not None and (place["file"], place["line"]) == (
        os.path.realpath(asked["file"]),
        asked["line"],
    )


def _resize(arguments, size, wanted):
    sampler = arguments.get("batch_sampler")
    if sampler is not None:
        # The batches will show if a sampler of the user follows the change.
        if getattr(sampler, "batch_size", None) == size:
            try:
                sampler.batch_size = wanted
            except AttributeError:
                return
    elif arguments.get("batch_size", 1) == size:
        arguments["batch_size"] = wanted


class _OverrideLoader(importlib.machinery.SourceFileLoader):
    """Compiles the given text instead of the file; never reads or writes bytecode for it."""

    def __init__(self, fullname, path, text):
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname):
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _OverrideFinder:
    """Calls the ordinary path finder, and replaces the loader of overridden files."""

    def __init__(self, texts):
        self._texts = texts

    def find_spec(self, fullname, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not spec.origin:
            return None
        text = self._texts.get(os.path.realpath(spec.origin))
        if text is None:
            return None
        spec.loader = _OverrideLoader(fullname, spec.origin, text)
        spec.cached = None
        return spec


def override_sources(texts):
    """Serve ``texts`` (real path -> source text) to every import from now on."""
    if texts:
        sys.meta_path.insert(0, _OverrideFinder(texts))
