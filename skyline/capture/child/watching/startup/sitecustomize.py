"""Startup code of every Python process below ``skyline watch``, which adds this folder to ``PYTHONPATH``.

It imports the ``sitecustomize`` that Python would have imported otherwise, and installs the hooks once the process
imports PyTorch. A process without PyTorch is not changed.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_CHILD = os.path.dirname(os.path.dirname(_HERE))
_PACKAGE = "_skyline_child"


class _TorchFinder:
    """A finder that installs the hooks after the import of PyTorch, and removes itself."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        try:
            loader = spec.loader
            execute = loader.exec_module

            def exec_module(module):
                del loader.exec_module
                execute(module)
                _install()

            loader.exec_module = exec_module
        except AttributeError:
            # Another loader that allows no change: the process is not watched.
            pass
        return spec


def _install():
    """Install the hooks; after a failure the run continues without being watched."""
    try:
        import importlib
        import importlib.util

        if _PACKAGE not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                _PACKAGE, os.path.join(_CHILD, "__init__.py"), submodule_search_locations=[_CHILD]
            )
            module = importlib.util.module_from_spec(spec)
            sys.modules[_PACKAGE] = module
            spec.loader.exec_module(module)
        importlib.import_module(_PACKAGE + ".watching.hooks").install(os.environ["SKYLINE_WATCH"])
    except Exception as error:
        sys.stderr.write(f"skyline watch: the run is not watched: {type(error).__name__}: {error}\n")


def _show(kind, error, trail):
    """Print an exception without the frames of the hooks."""
    sys.__excepthook__(kind, error, _without_hooks(trail))


def _without_hooks(trail):
    kept = []
    while trail is not None:
        if not trail.tb_frame.f_code.co_filename.startswith(_CHILD + os.sep):
            kept.append(trail)
        trail = trail.tb_next
    for place, entry in enumerate(kept):
        entry.tb_next = kept[place + 1] if place + 1 < len(kept) else None
    return kept[0] if kept else None


def _import_hidden():
    """Import the ``sitecustomize`` module that this folder hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
if os.environ.get("SKYLINE_WATCH"):
    sys.meta_path.insert(0, _TorchFinder())
    sys.excepthook = _show
_import_hidden()
