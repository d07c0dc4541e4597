"""For interpreters with this folder on ``PYTHONPATH``: they import PyTorch and end in half the time.

The first optimizer of a process imports PyTorch's compiler, and so does the first recording of its profiler: two thirds
of a second of the processor. A process that runs are forked from imports it once for all its forks. The product leaves
it to each run, because the compiler reads variables that the script may set before. In other processes a stand-in
answers what optimizers and process groups ask, and gives way to the compiler as soon as anything else of it is wanted.
"""

import atexit
import gc
import importlib
import importlib.machinery
import sys
import types

# Hardly any object that an import makes is garbage: the search for it is a sixth of the time that PyTorch takes.
_usual = gc.get_threshold()
gc.set_threshold(100_000, 50, 100)
# And most of the time in which a process ends that has imported it.
atexit.register(gc.freeze)

_NAME = "torch._dynamo"
_LEFT_ALONE = ({"wrapping": False}, {"reason": "skipping FSDP hooks"})
"""How PyTorch asks to leave functions of its own alone: once for all calls, and at each call."""


class AwaitedCompiler(types.ModuleType):
    """In the compiler's place until something compiles: PyTorch's own functions only ask to be left alone."""

    graph_break = type(None)

    def __init__(self):
        super().__init__(_NAME)
        self.left_alone = []
        # The default: who sets another has imported the compiler.
        self.utils = Part(self, "utils", get_optimize_ddp_mode=lambda: "ddp_optimizer")
        self.trace_rules = Part(self, "trace_rules", clear_lru_cache=type(None))

    def disable(self, fn=None, recursive=True, **options):
        if fn is None or options not in _LEFT_ALONE:
            return real(self).disable(fn, recursive, **options)
        self.left_alone.append(fn)
        return fn

    def __getattr__(self, name):
        # A submodule is looked for in ``__path__``; the import of the stand-in itself asks for it, too.
        if name.startswith("__") and (name != "__path__" or _NAME not in sys.modules):
            raise AttributeError(name)
        return getattr(real(self), name)


class Part:
    """In the place of one of its modules, which have no more to tell yet."""

    def __init__(self, awaited, name, **known):
        self.awaited, self.name = awaited, name
        vars(self).update(known)

    def __getattr__(self, name):
        return getattr(getattr(real(self.awaited), self.name), name)


def real(awaited):
    """The compiler, imported now; what was left alone before is handed to it at its next call."""
    if sys.modules.get(_NAME) is awaited:
        del sys.modules[_NAME]
        Finder.in_place = False
        importlib.import_module(_NAME)
        for fn in awaited.left_alone:
            vars(fn).pop("__dynamo_disable", None)
    return sys.modules[_NAME]


class Finder:
    """Puts the stand-in where the compiler is imported."""

    in_place = True

    def find_spec(self, name, path=None, target=None):
        if name == _NAME and self.in_place:
            return importlib.machinery.ModuleSpec(name, self)
        # The import of a submodule has replaced the stand-in by the compiler, which has imported the submodule too.
        if name.startswith(_NAME + ".") and name in sys.modules:
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return sys.modules.get(spec.name) or AwaitedCompiler()

    def exec_module(self, module):
        pass


if "--warm" in sys.orig_argv:
    import torch._inductor.config  # noqa: F401

    # The imports are over, and the runs that are forked are scripts as users run them.
    gc.set_threshold(*_usual)
else:
    sys.meta_path.insert(0, Finder())
