"""Adds shapes to the kernels of stored recordings, which were made before the product recorded shapes.

Traces the script of each recording by shape, as ``skyline profile --gpu`` does, and assigns its products, convolutions
and attention to the kernels of the recording in order. A recording with another number of such kernels is unchanged.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from skyline.capture.request import CaptureRequest
from skyline.graph.task import WorkClass, work_class
from skyline.predict.gpus import gpu_named
from skyline.predict.shape_tracer import ScriptTracer
from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.trace.record import Record, RecordKind

_HERE = Path(__file__).resolve().parent
_FOLDER = _HERE / "gpu_h200"
_SCRIPT = _HERE / "gpu_models_training.py"


def sized(recorded: Profile, traced: Profile) -> Profile | None:
    """The recording with the shapes of the trace. None if their kernels differ."""
    called = [traced.trace.shapes[one.shape] for one in traced.trace.records if _multiplies(one, 0)]
    shapes = [*recorded.trace.shapes, *called]
    records = list(recorded.trace.records)
    for mark in recorded.trace.iterations:
        own = [place for place, one in enumerate(records) if _multiplies(one, mark.index)]
        if len(own) != len(called):
            return None
        for number, place in enumerate(sorted(own, key=lambda place: records[place].start_us)):
            records[place] = replace(records[place], shape=len(recorded.trace.shapes) + number)
    return replace(recorded, trace=replace(recorded.trace, records=records, shapes=shapes))


def _multiplies(record: Record, iteration: int) -> bool:
    is_own = record.kind is RecordKind.KERNEL and record.iteration == iteration
    return is_own and work_class(record.name) is not WorkClass.OTHER and "split" not in record.name.lower()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--interpreter", default=sys.executable, help="a Python with timm and transformers")
    options = parser.parse_args()
    for path in sorted(_FOLDER.glob("*.profile.json.gz")):
        recorded = store.load(path)
        kernels = [one for one in recorded.trace.records if one.kind is RecordKind.KERNEL]
        if Path(recorded.script).name != _SCRIPT.name or any(one.shape >= 0 for one in kernels):
            continue
        device = gpu_named(recorded.environment.device.name)
        request = CaptureRequest(
            _SCRIPT, recorded.arguments, interpreter=options.interpreter, gpu=device.name, batch_points=0
        )
        traced = ScriptTracer(request, device, lambda _: None).trace()
        found = sized(recorded, traced)
        print(f"{path.name}: {'other kernels' if found is None else 'sized'}")
        if found is not None:
            path.write_bytes(gzip.compress(msgspec.json.encode(found), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
