"""Calls back right after a module is imported, or at once if it is already imported."""

from __future__ import annotations

import contextlib
import sys

_CALLBACKS = {}


def after_import(name, callback):
    """Call ``callback(module)`` once the module is imported; its exceptions are ignored."""
    if name in sys.modules:
        _call(callback, sys.modules[name])
        return
    if not _CALLBACKS:
        sys.meta_path.insert(0, _Finder())
    _CALLBACKS.setdefault(name, []).append(callback)


def _call(callback, module):
    # The script must not fail because a library differs from the expected version.
    with contextlib.suppress(Exception):
        callback(module)


class _Finder:
    """Finds no modules itself: calls the other finders, and wraps the loaders of the awaited modules."""

    def __init__(self):
        self._asking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _CALLBACKS or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = _find(name, path, target)
        except (ImportError, ValueError, AttributeError):
            spec = None
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            _wrap(spec.loader, name)
        return spec


def _find(name, path, target):
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find is not None and not isinstance(finder, _Finder) else None
        if spec is not None:
            return spec
    return None


def _wrap(loader, name):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        for callback in _CALLBACKS.pop(name, ()):
            _call(callback, module)

    with contextlib.suppress(AttributeError):
        loader.exec_module = exec_module
