"""Modules that the resident process imports ahead of the scripts, and hides until a script imports them.

The first optimizer of a script imports PyTorch's compiler, and its first recording the compiler's settings. In a fork
of the resident process both are already imported. They are not in ``sys.modules`` until the script imports one of
them: the import then restores the module with all other modules that it needs.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings

NAMES = ("torch._dynamo", "torch._inductor.config")
"""Modules imported by the first optimizer of a process, and by the first recording of PyTorch's profiler."""
_FINDERS = []
"""The finder of this process; a fresh process has none."""


def prepare(names=NAMES):
    """Import and hide the modules. Returns False if the process can no longer be forked safely.

    An import may start threads or open devices, which a fork does not inherit in working order.
    """
    before = _footprint()
    wanted = [name for name in names if name not in sys.modules]
    finder = _Finder()
    finder.load(wanted)
    fit = _footprint() == before
    if finder.hidden:
        _FINDERS.append(finder)
        sys.meta_path.insert(0, finder)
    return fit


def find(name):
    """The imported module of this name, hidden or not; None if it is not imported yet."""
    found = (finder.hidden.get(name) for finder in _FINDERS)
    return sys.modules.get(name) or next(filter(None, found), None)


def variables_read():
    """Names of the environment variables that the imports have read."""
    return sorted(set().union(*(finder.read for finder in _FINDERS)))


def watch_variables(tell):
    """Call ``tell(names)`` if the script's own import would have another result.

    ``names`` are variables that the imports have read and the script has set, and packages that files of the script
    shadow.
    """
    for finder in _FINDERS:
        finder.at_start = {name: os.environ.get(name) for name in finder.read}
        finder.owner, finder.tell = os.getpid(), tell


class _Finder:
    """Returns hidden modules on import, and leaves ``sys.meta_path`` after the last one."""

    def __init__(self):
        self.hidden = {}
        self.read = set()
        self.at_start = {}
        self.owner = 0
        self.tell = None
        self._needed = {}
        self._replaced = {}
        self._set = {}
        self._filters = {}
        self._bound = set()

    def load(self, wanted):
        """Import these modules, note the needs and changes of each, and hide all of it again."""
        before = set(sys.modules)
        with warnings.catch_warnings(), self._noting_imports(), self._noting_variables():
            for name in wanted:
                functions, environment, filters = _functions(), set(os.environ), [*warnings.filters]
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
                self._set[name] = dict.fromkeys(set(os.environ) - environment, "")
                self._filters[name] = [one for one in warnings.filters if one not in filters]
                self._replaced[name] = [
                    (module, own, old, vars(module)[own])
                    for module, own, old in functions
                    if vars(module).get(own, old) is not old
                ]
        for name in reversed(wanted):
            self._set[name] = {variable: os.environ.pop(variable) for variable in self._set[name]}
            for module, own, old, _ in self._replaced[name]:
                setattr(module, own, old)
        # Modules of the standard library stay, since other parts of Python rely on them.
        for name in [*sys.modules]:
            if name not in before and name.partition(".")[0] not in sys.stdlib_module_names:
                self.hidden[name] = sys.modules.pop(name)
        for name, module in self.hidden.items():
            parent, _, own = name.rpartition(".")
            names = vars(sys.modules[parent]) if parent in sys.modules else {}
            if names.get(own) is module:
                del names[own]
                self._bound.add(name)

    @contextlib.contextmanager
    def _noting_imports(self):
        """Note which modules the import of each module needed."""
        native, native_by_name = builtins.__import__, importlib.import_module

        def note(importer, count, *names):
            # Modules that are new now were needed by the requested module.
            new = list(sys.modules)[count:] if len(sys.modules) > count else ()
            self._needed.setdefault(importer, set()).update(names, new)

        def imported(name, globals=None, locals=None, fromlist=(), level=0):
            count, names = len(sys.modules), globals or {}
            module = native(name, globals, locals, fromlist, level)
            importer = names.get("__name__", "")
            package = names.get("__package__") or importer
            whole = importlib.util.resolve_name("." * level + name, package) if level else name
            note(importer, count, whole, *(f"{whole}.{one}" for one in fromlist or ()))
            return module

        def imported_by_name(name, package=None):
            count = len(sys.modules)
            module = native_by_name(name, package)
            note(sys._getframe(1).f_globals.get("__name__", ""), count, module.__name__)
            return module

        builtins.__import__, importlib.import_module = imported, imported_by_name
        try:
            yield
        finally:
            builtins.__import__, importlib.import_module = native, native_by_name

    @contextlib.contextmanager
    def _noting_variables(self):
        """Note which environment variables are read."""
        usual, read = type(os.environ), self.read

        class Noting(usual):
            def __getitem__(self, name):
                if isinstance(name, str):
                    read.add(name)
                return super().__getitem__(name)

        os.environ.__class__ = Noting
        try:
            yield
        finally:
            os.environ.__class__ = usual

    def find_spec(self, name, path=None, target=None):
        """The spec of a hidden module, as importlib requests it; the caller may only check that the module exists."""
        module = self.hidden.get(name)
        if module is None:
            return None
        own = getattr(module, "__dict__", {}).get("__spec__")
        spec = importlib.machinery.ModuleSpec(name, _Loader(self, own), origin=getattr(own, "origin", None))
        spec.submodule_search_locations = getattr(own, "submodule_search_locations", None)
        return spec

    def give(self, name):
        """Restore the module and everything that its import needed, and return it."""
        given, wanted, asked = self.hidden[name], {name}, [name]
        while asked:
            one = asked.pop()
            needed = {one.rpartition(".")[0]}.union(self._needed.get(one, ()))
            new = needed & self.hidden.keys() - wanted
            wanted |= new
            asked += new
        self._compare(wanted)
        for one in [one for one in self.hidden if one in wanted]:
            module = sys.modules[one] = self.hidden.pop(one)
            parent, _, own = one.rpartition(".")
            if one in self._bound and parent in sys.modules:
                setattr(sys.modules[parent], own, module)
        for one in wanted & self._replaced.keys():
            for module, own, old, new in self._replaced.pop(one):
                # The function stays as it is if the script has replaced it.
                if vars(module).get(own) is old:
                    setattr(module, own, new)
            for variable, value in self._set.pop(one).items():
                os.environ.setdefault(variable, value)
            warnings.filters[:0] = self._filters.pop(one)
            # Python caches results of the earlier filters until a block like this one.
            with warnings.catch_warnings():
                pass
        if not self.hidden:
            sys.meta_path.remove(self)
        return given

    def _compare(self, wanted):
        """Report variables that changed, and packages for which the script has a file of the same name."""
        if self.tell is None or self.owner != os.getpid():
            return
        changed = [name for name, value in self.at_start.items() if os.environ.get(name) != value]
        shadowed = [name for name in wanted if "." not in name and self._is_elsewhere(name)]
        tell, self.tell = self.tell, None
        if changed or shadowed:
            tell(sorted([*changed, *shadowed]))

    def _is_elsewhere(self, name):
        own = getattr(self.hidden[name], "__spec__", None)
        found = importlib.machinery.PathFinder.find_spec(name)
        return found is not None and own is not None and found.origin != own.origin


class _Loader:
    """Returns a module that was executed earlier, without executing it again."""

    def __init__(self, finder, spec):
        self._finder = finder
        self._spec = spec

    def create_module(self, spec):
        return self._finder.give(spec.name)

    def exec_module(self, module):
        # The import system has replaced the original spec.
        with contextlib.suppress(AttributeError, TypeError):
            vars(module)["__spec__"] = self._spec


def _functions():
    """All functions that modules bind: triples of module, name and function."""
    return [
        (module, name, value)
        for module in list(sys.modules.values())
        if type(module) is types.ModuleType
        for name, value in list(vars(module).items())
        if isinstance(value, types.FunctionType)
    ]


def _footprint():
    """The parts of a process that a fork does not inherit: threads, child processes, open devices."""
    folder = "/proc/self/"
    found = [len(os.listdir(folder + "task")), len(os.listdir(folder + "fd"))]
    with contextlib.suppress(OSError), open(f"{folder}task/{os.getpid()}/children") as file:
        found.append(file.read())
    return found
