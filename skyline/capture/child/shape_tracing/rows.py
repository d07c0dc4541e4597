"""The rows of the traced iteration, as in ``skyline.trace.Trace``. Times are nominal: each record takes one tick."""

from __future__ import annotations

import torch

from ..recording import flops
from ..recording.rows import settle_phases

TICK_US = 1.0
HOST = "cpu:main"
STREAM = "gpu:0"
LAUNCH = "cudaLaunchKernel"
COPY = "cudaMemcpyAsync"
WAIT = "cudaStreamSynchronize"
"""Names of calls of the CUDA runtime, as in a recording on a GPU."""

_SCRATCH = ("grad", "root_call")


def _dimensions(value):
    """The arguments with tensors replaced by their dimensions."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, (list, tuple)):
        return [_dimensions(item) for item in value]
    return value


class RecordRows:
    """Collects records, shapes and allocations while the iteration runs."""

    def __init__(self):
        self._now = 0.0
        self._records = []
        self._allocations = []
        self._shapes = {}
        self._correlation = 0
        self.latest = None

    @property
    def now_us(self):
        """The nominal time in µs."""
        return self._now

    def host(self, name, place, shape=-1, count=0, kind="operator"):
        """Add work of the script's own thread."""
        return self._add(
            name, "data" if place.phase == "data" and kind == "operator" else kind, place, shape, count
        )

    def device(self, name, place, shape, count, call=LAUNCH, kind="kernel", waits=False):
        """Add work on the GPU and the call that launches it; ``waits``: the call returns when the work is done."""
        self._correlation += 1
        launch = self._add(call, "runtime", place, -1, 0, self._correlation)
        kernel = self._row(name, kind, place, shape, count, self._correlation)
        kernel["lane"] = STREAM
        if not waits:
            kernel["start_us"] += TICK_US / 2
        self._records.append(kernel)
        launch["twin"] = kernel
        return launch

    def changed(self, block, sign, place):
        """Add the allocation (+1) or the release (-1) of a block."""
        record = self.latest
        self._allocations.append(
            (self._now, sign * block.size_bytes, block.address, block.on_gpu, place, record)
        )

    def shape(self, name, counted_as, ins, outs, args, moved, layout=""):
        """The index of an operator's shapes, and its arithmetic.

        ``counted_as`` is the operator to which the arguments belong, ``moved`` the number of bytes that it reads and
        writes, ``layout`` the memory layout of its images.
        """
        key = (name, tuple(ins), tuple(outs), moved, layout)
        found = self._shapes.get(key)
        if found is None:
            if counted_as == "aten::convolution":
                count = flops.convolution(outs[0][0], ins[1][0], bool(args[6]), ins[0][0])
            else:
                count = flops.count(counted_as, _dimensions(args)) if flops.is_known(counted_as) else 0
            if name == "aten::convolution_backward" and not (args[10][0] and args[10][1]):
                count //= 2  # for example, the first layer's input needs no gradient
            found = self._shapes[key] = (len(self._shapes), count)
        return found

    def trained(self):
        """Numbers of the forward passes that have a backward pass."""
        return {record["root_call"] for record in self._records if record["grad"]}

    def trace(self, places, on_gpu, loop):
        """The traced iteration as a dictionary.

        Allocations are those on the device on which the script trains, with the number of a module. ``loop`` is the
        frame with the training loop.
        """
        lines = places.lines()
        for record in self._records:
            record["call_line"] = dict(record["call_line"]).get(id(loop), -1)
        settle_phases(self._records, lines)
        for record in self._records:
            twin = record.pop("twin", None)
            if twin is not None:
                twin["phase"] = record["phase"]
        records = [
            {name: value for name, value in record.items() if name not in _SCRATCH}
            for record in self._records
        ]
        return {
            "iterations": [{"index": 0, "start_us": 0.0, "end_us": self._now}],
            "lines": lines,
            "modules": places.modules(),
            "records": records,
            "allocations": [
                {
                    "time_us": time_us,
                    "size_bytes": size,
                    "address": address,
                    "phase": record["phase"] if record is not None else place.phase,
                    "line": place.line,
                    "module": place.module,
                }
                for time_us, size, address, gpu, place, record in self._allocations
                if gpu == on_gpu
            ],
            "shapes": [
                {
                    "operator": name,
                    "inputs": [dims for dims, _ in ins],
                    "dtypes": [dtype for _, dtype in ins],
                    "outputs": [dims for dims, _ in outs],
                    "output_dtypes": [dtype for _, dtype in outs],
                    "flops": count,
                    "bytes_moved": moved,
                    "layout": layout,
                }
                for (name, ins, outs, moved, layout), (_, count) in self._shapes.items()
            ],
        }

    def _add(self, name, kind, place, shape, count, correlation=0):
        record = self._row(name, kind, place, shape, count, correlation)
        self._records.append(record)
        self._now += TICK_US
        self.latest = record
        return record

    def _row(self, name, kind, place, shape, count, correlation):
        return {
            "name": name,
            "kind": kind,
            "phase": place.phase,
            "lane": HOST,
            "iteration": 0,
            "start_us": self._now,
            "duration_us": TICK_US,
            "line": place.line,
            "call_line": place.call_lines,
            "module": place.module,
            "correlation": correlation,
            "shape": shape,
            "flops": count,
            "root_call": place.root_call,
            "grad": False,
        }
