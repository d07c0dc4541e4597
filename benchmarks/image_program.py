"""Traces an image model's inference or training step by shape, as the product traces a script for a GPU."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from types import SimpleNamespace
from typing import Any

import torch
import vision_stand_in
from fused_regions import Seen, fuse
from operator_table import TRACED_BATCH, linear, symbolic

from skyline.capture.child.shape_tracing import held_storages
from skyline.capture.child.shape_tracing.autocast import Autocast
from skyline.capture.child.shape_tracing.facade import Facade
from skyline.capture.child.shape_tracing.tracer import OperatorTracer, layout_of
from skyline.capture.child.shape_tracing.virtual import VirtualTensor

_DRAWING = ("normal_", "uniform_", "trunc_normal_", "random_", "erfinv_", "clamp_", "fill_", "zero_")
_LITTLE = ("aten::embedding", "aten::index", "aten::index_select", "aten::gather")


class ProgramTracer(OperatorTracer):
    """Collects the calls of one step, with the memory that each call reads and writes."""

    def __init__(self) -> None:
        scope = SimpleNamespace(
            target=None,
            inside_gpu_work=lambda: self.on_gpu_now,
            asked=lambda: "",
            asks_for_truth=lambda: False,
        )
        super().__init__(True, scope)
        place = SimpleNamespace(phase="backward", line=-1)
        self.places = SimpleNamespace(current=lambda: place, made=lambda _: None, forget=lambda: None)
        self.watcher = SimpleNamespace(read=lambda *_: None, forget=lambda: None)
        self.on_gpu_now = False
        self.calls: list[Seen] = []
        self._live: list[int] = [0, 0]
        self.peaks: dict[int, tuple[int, int]] = {}

    def _record(
        self, one: Any, place: Any, ins: Any, outs: Any, args: Any, on_gpu: bool, crosses: bool
    ) -> Any:
        if not one.has_kernel or not on_gpu:
            return None
        name = self._name(one.name, ins)
        outs = self._given(one.name, outs, args)
        sizes = tuple((tuple(tensor.shape), str(tensor.dtype)[6:]) for tensor in ins)
        given = tuple((tuple(tensor.shape), str(tensor.dtype)[6:]) for tensor in outs)
        read = ins[1:] if one.name in _LITTLE else ins
        moved = [_stored(tensor) for tensor in (*read, *outs, *(outs if one.name in _LITTLE else ()))]
        _, flops = self.rows.shape(name, one.name, sizes, given, args, sum(moved))
        fixed = sum(value for value in moved if value % TRACED_BATCH)
        each = sum(value // TRACED_BATCH for value in moved if value % TRACED_BATCH == 0)
        self.calls.append(
            Seen(
                name,
                sizes,
                given,
                layout_of(name, ins, outs),
                flops,
                (fixed, each),
                tuple(self._key(tensor) for tensor in ins),
                tuple(self._key(tensor) for tensor in outs),
                tuple(_stored(tensor) for tensor in ins),
                tuple(_stored(tensor) for tensor in outs),
                args[6] if name == "aten::convolution" else False,
            )
        )
        return None

    def run(self, func: Any, args: Any, kwargs: Any, virtual: bool = True) -> Any:
        """Run one operator. Marks of the profiler do not count as operators."""
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        return super().run(func, args, kwargs, virtual)

    def begin(self) -> None:
        """Forget the previous program."""
        self._live, self.peaks, self.calls = [0, 0], {}, []

    def _key(self, tensor: Any) -> int:
        block = self.ledger.block(tensor)
        if block is None:
            self.ledger.take(tensor, True)
            block = self.ledger.block(tensor)
        return block.address

    def _changed(self, block: Any, sign: int) -> None:
        if not block.on_gpu:
            return
        size = linear(block.size_bytes)
        self._live[0] += sign * size.fixed
        self._live[1] += sign * size.each
        for batch in (16, 128, TRACED_BATCH):
            now = self._live[0] + batch * self._live[1]
            before = self.peaks.get(batch)
            if before is None or now > before[0] + batch * before[1]:
                self.peaks[batch] = (self._live[0], self._live[1])


def _stored(tensor: Any) -> int:
    """The largest number of bytes that can be read of a tensor. An expanded tensor is stored once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


class _NoDraws(torch.overrides.TorchFunctionMode):
    """Creates weights without drawing their random numbers, because nothing reads them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _DRAWING:
            tensor = args[0] if args else (kwargs or {}).get("tensor")
            if isinstance(tensor, torch.Tensor) and tensor.numel() > 4096:
                return tensor
        return func(*args, **(kwargs or {}))


class ProgramFollower:
    """Traces one program after another in this process. From then on, PyTorch uses a virtual GPU in this process."""

    def __init__(self) -> None:
        vision_stand_in.provide()
        import timm
        from timm.utils.model import reparameterize_model

        self._timm = timm
        self._reparameterize = reparameterize_model
        self._last: tuple[Any, ...] | None = None
        # Exact sizes, because rounding would hide which of them grow with the batch.
        held_storages._GRANULE = 1
        self._tracer = ProgramTracer()
        gpu = {"name": "GPU", "memory_bytes": 1 << 40, "compute_capability": (8, 6), "multiprocessors": 82}
        facade = Facade(self._tracer, gpu)
        facade.install_everywhere()
        Autocast().install()
        facade.install()
        self._tracer.start()

    def follow(
        self,
        name: str,
        size: int,
        mode: str,
        precision: str,
        layout: str,
        fused: bool,
        widened: bool,
        parameters_m: float,
    ) -> dict[str, Any]:
        """The operators of a program at the traced batch size, or the reason why there are none.

        ``widened``: attention without a fused kernel is computed in float32. ``parameters_m`` is the number of
        parameters of the measured model in millions, which shows if its branches were joined before.
        """  # fmt: skip
        self._timm.layers.set_fused_attn(fused)
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(not widened)
        why = ""
        for given in ({}, {"img_size": size}):
            try:
                model = self._model(name, given, fused, parameters_m)
                return self._step(model, size, mode, precision, layout, fused)
            except Exception as error:
                if os.environ.get("TRACE_ERRORS"):
                    traceback.print_exc()
                why = why or f"{type(error).__name__}: {str(error)[:160]}"
        return {"why": why}

    def _model(self, name: str, given: dict[str, int], fused: bool, parameters_m: float) -> Any:
        """The model with its own weights, which are not drawn. The last model is used again if it is the same."""
        key = (name, *given.items(), fused, parameters_m)
        if self._last is None or self._last[0] != key:
            self._last = None
            model = self._joined(self._made(name, given), parameters_m)
            self._last = key, model, _places(model)
        _, model, places = self._last
        for store, place, tensor in places:
            store[place] = tensor
        return model

    def _joined(self, model: Any, parameters_m: float) -> Any:
        """The model, with its branches joined if it was measured in that form."""
        if not _agree(model, parameters_m, 0.002):
            with contextlib.suppress(Exception):
                joined = self._reparameterize(model)
                if _agree(joined, parameters_m, 0.002):
                    return joined
        if not _agree(model, parameters_m, 0.03):
            raise ValueError(f"timm's model has {_millions(model):.2f} million parameters")
        return model

    def _made(self, name: str, given: dict[str, int]) -> Any:
        with _NoDraws():
            for one in (name, name.partition(".")[0]):
                try:
                    return self._timm.create_model(one, pretrained=False, **given)
                except (RuntimeError, ValueError) as error:
                    if "nknown model" not in str(error) and "nvalid" not in str(error):
                        raise
        raise ValueError(f"timm {self._timm.__version__} has no model {name}")

    def _step(
        self, model: Any, size: int, mode: str, precision: str, layout: str, fused: bool
    ) -> dict[str, Any]:
        training = mode == "train"
        model.train(training)
        half = torch.bfloat16 if precision == "bf16" else torch.float32
        order = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        tracer = self._tracer
        tracer.recording = True
        tracer.begin()
        held = _onto_gpu(model, half, order, tracer)
        with torch._C._DisableTorchDispatch():
            meta = torch.empty((TRACED_BATCH, 3, size, size), dtype=half, device="meta", memory_format=order)
        images = VirtualTensor(meta, True)
        tracer.ledger.take(meta, True)
        try:
            if training:
                optimizer = torch.optim.SGD(
                    model.parameters(), lr=1e-4, momentum=0.9, nesterov=True, foreach=None if fused else False
                )
                for parameter in model.parameters():
                    # Gradients exist before the step that counts.
                    parameter.grad = torch.zeros_like(parameter)
                    optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
                tracer.calls = []
                _train(model, images, optimizer, precision, tracer)
            else:
                with torch.no_grad(), _autocast(precision):
                    model(images)
        finally:
            tracer.on_gpu_now = False
            tracer.recording = False
        calls, tracer.calls = tracer.calls, []
        return {
            "calls": counted(calls),
            "fused": counted(fuse(calls)) if not training else [],
            "peaks": [list(one) for one in dict.fromkeys(tracer.peaks.values())],
            "held": held,
        }


def counted(calls: list[Seen]) -> list[tuple[Any, int]]:
    """Each distinct call with the number of its repetitions."""
    rows: dict[Any, int] = {}
    for call in calls:
        flops = linear(call.flops)
        row = (
            call.operator,
            tuple(symbolic(size) for size, _ in call.inputs),
            tuple(dtype for _, dtype in call.inputs),
            tuple(symbolic(size) for size, _ in call.outputs),
            tuple(dtype for _, dtype in call.outputs),
            call.layout,
            (flops.fixed, flops.each),
            call.moved,
        )
        rows[row] = rows.get(row, 0) + 1
    return list(rows.items())


def _train(model: Any, images: Any, optimizer: Any, precision: str, tracer: ProgramTracer) -> None:
    optimizer.zero_grad()
    with _autocast(precision):
        output = model(images)
        output = output[0] if isinstance(output, tuple) else output
        with torch._C._DisableTorchDispatch():
            meta = torch.empty((output.shape[0],), dtype=torch.int64, device="meta")
        target = VirtualTensor(meta, True)
        loss = torch.nn.functional.cross_entropy(output, target)
        tracer.on_gpu_now = True
        loss.backward()
        tracer.on_gpu_now = False
    optimizer.step()


def _autocast(precision: str) -> Any:
    return torch.amp.autocast("cuda", dtype=torch.float16, enabled=precision == "amp")


def _millions(model: Any) -> float:
    return sum(one.numel() for one in model.parameters()) / 1e6


def _agree(model: Any, parameters_m: float, share: float) -> bool:
    return abs(_millions(model) - parameters_m) <= share * parameters_m + 0.006


def _places(model: Any) -> list[tuple[dict[str, Any], str, Any]]:
    """The tensors of a model: the dictionary that holds each, its name in it, and the tensor."""
    found: list[tuple[dict[str, Any], str, Any]] = []
    for module in model.modules():
        for store in (module._parameters, module._buffers, vars(module)):
            found += [(store, name, one) for name, one in store.items() if isinstance(one, torch.Tensor)]
    return found


def _onto_gpu(model: Any, dtype: Any, order: Any, tracer: ProgramTracer) -> int:
    """Replace the model's tensors by virtual ones. Returns their bytes."""
    held = 0
    made: dict[int, Any] = {}
    for store, name, tensor in _places(model):
        if id(tensor) not in made:
            parameter = isinstance(tensor, torch.nn.Parameter)
            made[id(tensor)] = _virtual(tensor, dtype, order, parameter, tracer)
            held += tensor.numel() * made[id(tensor)].meta.element_size()
        store[name] = made[id(tensor)]
    return held


def _virtual(tensor: Any, dtype: Any, order: Any, parameter: bool, tracer: ProgramTracer) -> Any:
    floating = tensor.is_floating_point()
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        meta = torch.empty(tensor.shape, dtype=dtype if floating else tensor.dtype, device="meta")
        if tensor.dim() == 4 and order is torch.channels_last:
            meta = meta.to(memory_format=order)
    known = tensor.detach() if tensor.numel() <= 4096 and not parameter else None
    made = VirtualTensor(meta, True, known)
    tracer.ledger.take(meta, True)
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad) if parameter else made


def main() -> None:
    """Answer each request for a program on standard input, one line of JSON for each line of JSON."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    follower, why = None, ""
    try:
        follower = ProgramFollower()
    except ImportError as error:
        why = f"{error}: programs that are not stored need timm, as benchmarks/README.md says"
    for line in sys.stdin:
        table = {"why": why} if follower is None else follower.follow(*json.loads(line))
        out.write(json.dumps(table, separators=(",", ":")) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
