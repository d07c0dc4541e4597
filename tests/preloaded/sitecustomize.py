"""For interpreters with this folder on ``PYTHONPATH``: they import PyTorch and end in half the time.

The first optimizer of a process imports PyTorch's compiler, and so does the first recording of its profiler: two thirds
of a second of the processor. Stand-ins answer here what optimizers, process groups and the profiler ask of it, and give
way to the compiler as soon as anything else of it is wanted.
"""

import atexit
import gc
import importlib
import importlib.machinery
import os
import sys
import types

# Hardly any object that an import makes is garbage: the search for it is a sixth of the time that PyTorch takes.
_usual = gc.get_threshold()
gc.set_threshold(100_000, 50, 100)
# And most of the time in which a process ends that has imported it.
atexit.register(gc.freeze)

_LEFT_ALONE = ({"wrapping": False}, {"reason": "skipping FSDP hooks"})
"""Options with which PyTorch asks to leave functions of its own alone: once for all calls, and at each call."""


class Awaited(types.ModuleType):
    """In the place of a module with what is known of it; the module comes when something else of it is wanted."""

    def __init__(self, name, **known):
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(real(self.__name__), name)


class AwaitedCompiler(Awaited):
    """Until something compiles, PyTorch's own functions only ask to be left alone."""

    def __init__(self, name, **known):
        super().__init__(name, **known)
        self.left_alone = []

    def disable(self, fn=None, recursive=True, **options):
        if fn is None or options not in _LEFT_ALONE:
            return real(self.__name__).disable(fn, recursive, **options)
        self.left_alone.append(fn)
        return fn


def stand_in(name):
    """Of a module that is asked before anything compiles; who sets other values than the defaults has imported it."""
    if name == "torch._dynamo":
        utils = Awaited("torch._dynamo.utils", get_optimize_ddp_mode=lambda: "ddp_optimizer")
        rules = Awaited("torch._dynamo.trace_rules", clear_lru_cache=type(None))
        return AwaitedCompiler(name, __path__=[], graph_break=type(None), utils=utils, trace_rules=rules)
    if name == "torch._inductor":
        return Awaited(name, __path__=[])
    return Awaited(name, triton=types.SimpleNamespace(cudagraphs=False))


def real(name):
    """The module, imported now; all stand-ins are gone, and what was left alone is handed over at its next call."""
    for standing in [module for module in sys.modules.values() if isinstance(module, Awaited)]:
        package, _, own = standing.__name__.rpartition(".")
        del sys.modules[standing.__name__]
        vars(sys.modules.get(package, standing)).pop(own, None)
        for fn in getattr(standing, "left_alone", ()):
            vars(fn).pop("__dynamo_disable", None)
    Finder.awaited = ()
    return importlib.import_module(name)


class Finder:
    """Puts stand-ins where modules of the compiler are imported."""

    awaited = ("torch._dynamo", "torch._inductor", "torch._inductor.config")

    def __init__(self):
        self.specs = {}

    def find_spec(self, name, path=None, target=None):
        if name in self.awaited:
            return importlib.machinery.ModuleSpec(name, self)
        if isinstance(sys.modules.get(name.rpartition(".")[0]), Awaited):
            # Another module of the compiler is wanted.
            self.specs[name] = real(name).__spec__
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return sys.modules[spec.name] if spec.name in self.specs else stand_in(spec.name)

    def exec_module(self, module):
        module.__spec__ = self.specs.pop(module.__name__, module.__spec__)


class BriefFacts:
    """Has a run fill a small block once, in place of a large one three times, to know what that costs here.

    That is a fifth of a brief run.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "_skyline_child.facts":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def shortened(module):
            execute(module)
            module._BYTES, module._TIMES = 1 << 20, 1

        spec.loader.exec_module = shortened
        return spec


def collect_as_usual():
    """In a run that is forked, once: the imports are over, and it is a script as users run it."""
    global _usual
    if _usual:
        gc.set_threshold(*_usual)
    _usual = ()


sys.meta_path[:0] = [Finder(), BriefFacts()]
if "--warm" in sys.orig_argv:
    # Stand-ins need no import ahead of the runs.
    sys.argv.append("--plain")
    os.register_at_fork(after_in_child=collect_as_usual)
