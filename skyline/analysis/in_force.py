"""Changes that the code names but the run did without, as under a condition that was not met."""

from __future__ import annotations

from skyline.graph.rules.names import launches_graph
from skyline.trace.profile import Profile
from skyline.trace.record import ON_DEVICE, RecordKind


def known_absent(profile: Profile, name: str) -> bool:
    """True if what was recorded shows that the run did without the change; False where nothing tells."""
    settings = profile.settings
    match name:
        case "tf32":
            return settings is not None and settings.matmul_precision == "highest"
        case "cudnn_benchmark":
            return settings is not None and settings.cudnn_benchmark is False
        case "channels_last":
            return _no_channels_last(profile)
        case "cuda_graphs":
            return _never_compiled(profile) and _no_graph_launched(profile)
        case _:
            return False


def _no_channels_last(profile: Profile) -> bool:
    """No weights lie in that layout, and they are known, or there are no convolutions."""
    layouts = [one.channels_last for one in profile.modules]
    convolves = any("Conv2d" in one.class_name for one in profile.modules)
    return bool(layouts) and True not in layouts and (False in layouts or not convolves)


def _never_compiled(profile: Profile) -> bool:
    """Every measured training has some call that is noted; tracing for a GPU leaves out the compiler."""
    return (
        profile.mode == "measured"
        and bool(profile.calls)
        and not any(one.name == "compile" for one in profile.calls)
    )


def _no_graph_launched(profile: Profile) -> bool:
    """Kernels were recorded, and no launch of a graph."""
    records = profile.trace.records
    return any(one.kind in ON_DEVICE for one in records) and not any(
        one.kind is RecordKind.RUNTIME and launches_graph(one.name) for one in records
    )
