"""The environment that Jupyter provides for a notebook: its folder, and IPython, here replaced by empty stand-ins."""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import sys
import types


def is_one(path):
    """True if the script is a notebook."""
    return path.endswith(".ipynb")


def set_up(names, path, text):
    """Prepare the names of ``__main__`` and the process as Jupyter does; ``text`` is the code of all cells."""
    # Jupyter sets no __file__, and a spawned process could not import a notebook anyway.
    del names["__file__"]
    names.update(display=_StandIn(), get_ipython=_StandIn())
    sys.path.insert(0, os.getcwd())
    # A window would wait for the user to close it.
    os.environ.setdefault("MPLBACKEND", "agg")
    # Tracebacks and inspect read lines from this cache. A time of None prevents a reload from the file, which differs.
    for name in {path, os.path.realpath(path)}:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    # It is the last finder, so that an installed IPython has priority.
    sys.meta_path.append(_Finder())


class _StandIn:
    """Accepts every call and has every attribute; it is empty and false."""

    def __call__(self, *_args, **_kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __contains__(self, _item):
        return False

    def __getitem__(self, _key):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return False

    def __str__(self):
        return ""


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn()


class _Finder:
    """Finds ``IPython`` and its modules if IPython is not installed."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] != "IPython":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass
