"""What a recording tells beside its rows: settings, modules, how gradients are joined, and calls."""

from __future__ import annotations

from .graph_breaks import graph_breaks
from .module_facts import module_facts
from .parallel import parallel
from .settings import settings
from .styles import compiled_frames


def recorded_facts(observer, devices, sightings, named, updated):
    """As a dictionary in the shape of ``skyline.capture.recording.Recording``.

    ``named`` are pairs of a path and a module; one that is under several roots, or twice, counts once.
    ``updated`` are the parameters that optimizers update.
    """
    once = {}
    for path, module in named:
        once.setdefault(id(module), (path, module))
    sightings.complete = not compiled_frames()
    modules, count = module_facts(once.values(), sightings, observer.births, updated)
    return {
        "settings": settings(devices, observer.styles.autocast),
        "modules": modules,
        "module_count": count,
        "parallel": parallel([module for _, module in once.values()], observer.births),
        "calls": [*sightings.rows(), *observer.compiled, *graph_breaks()],
    }
