"""Carries out operators on virtual tensors: finds the shapes of results, and records the work that would have run."""

from __future__ import annotations

import linecache
import re
from collections.abc import ValuesView

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import numbers, rules
from .held_storages import StorageLedger
from .rows import COPY, WAIT, RecordRows
from .virtual import Runner, VirtualTensor, meta_like

_BRANCHES = re.compile(r"^\s*(if|elif|while|assert)\b|\bif\b.*\belse\b")
_READS_LITTLE = frozenset({
    "aten::embedding", "aten::index", "aten::index_select", "aten::gather", "aten::_embedding_bag",
    "aten::_embedding_bag_forward_only",
})  # fmt: skip
"""Operators that read no more of their first tensor than they return."""

_ON_GPU = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (
        "aten::_scaled_dot_product_flash_attention_backward"
    ),
    "aten::mkldnn_rnn_layer": "aten::_cudnn_rnn",
    "aten::mkldnn_rnn_layer_backward": "aten::_cudnn_rnn_backward",
}
"""Names of the GPU's operators, by the CPU's operators that replace them here."""


class OperatorTracer(TorchDispatchMode):
    """Intercepts every operator of the process.

    Operators on virtual tensors are not executed. Operators on real tensors are executed (they read files, shuffle and
    collate), unless they need the numbers of a virtual tensor. ``for_gpu`` False traces the CPU: then real tensors
    count like virtual ones. ``processor``: a CPU takes the place of the GPU, and operators keep their names.
    """

    def __init__(self, for_gpu, scope, processor=False):
        super().__init__()
        self.for_gpu = for_gpu
        self._processor = processor
        self.ledger = StorageLedger(self._changed)
        self.rows = RecordRows()
        self._rules = rules.Rules(for_gpu)
        self.recording = self.spoiled = False
        self._retries = 0
        self.places = None
        self.modules = None
        self.watcher = None
        self.scope = scope
        self.branches = {}
        self._place = None

    @classmethod
    def _should_skip_dynamo(cls):
        # Nothing is compiled here, and excluding code from the compiler would import it.
        return False

    def start(self):
        """Intercept every operator from now on."""
        Runner.run = self.run
        Runner.sync = self.sync
        self.__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {}, VirtualTensor in types)

    def run(self, func, args, kwargs, virtual=True):
        """Run one operator: virtual if one of its tensors is virtual, or if it creates a tensor on the GPU."""
        device = kwargs.get("device")
        beside = False
        if not virtual:
            moves = self.scope.target is not None or (device is not None and device.type != "cpu")
            inside = self.scope.inside_gpu_work()
            if not moves and not inside:
                return self._real(func, args, kwargs)
            tensors = [*_tensors(args), *_tensors(kwargs.values())]
            # If PyTorch's own code allocates memory for a tensor of the script, it means the device of that tensor.
            beside = inside and (not tensors or any(tensor.is_meta for tensor in tensors))
            if not (moves or beside):
                return self._real(func, args, kwargs)
        call = _Call(self)
        call.on_gpu = beside and self.for_gpu
        metas = [call.take(value) for value in args]
        options = {name: call.take(value) for name, value in kwargs.items()}
        return self._virtual(operator(func), func, args, kwargs, call, metas, options)

    def record(self, retries):
        """Start to record. An iteration in which the script evaluates is dropped, up to ``retries`` times."""
        self.rows = RecordRows()
        self.branches = {}
        self.places.forget()
        self.watcher.forget()
        self.ledger.mark()
        self._retries = retries
        self.spoiled = False
        self.recording = True

    def evaluating(self):
        """Drop the current iteration, because the script evaluates in it, if another one can be recorded."""
        if self.recording and self._retries:
            self.recording = False
            self.spoiled = True

    def sync(self, tensor):
        """Record a read of numbers, at which the script waits until the GPU has done its work."""
        self.watcher.read(tensor, "")
        if self.recording and tensor.on_gpu:
            self._add_wait(self._here())

    def wait(self):
        """Record a wait for the GPU for another reason."""
        if self.recording:
            self._add_wait(self._here())

    # Operators.

    def _real(self, func, args, kwargs):
        result = func(*args, **kwargs)
        if self.recording and func.namespace != "profiler":
            one = operator(func)
            self._place = self._here()
            tensors = [*_tensors(args), *_tensors(kwargs.values())]
            self._record(one, self._place, tensors, _tensors(result), args, False, False)
        if not (self.for_gpu and self.ledger.live_bytes[True]):
            for tensor in _tensors(result):
                self.ledger.take(tensor, False)
        return result

    def _virtual(self, one, func, args, kwargs, call, metas, options):
        device = kwargs.get("device")
        on_gpu = call.on_gpu
        if self.scope.target is not None and one.name == "aten::_to_copy":
            on_gpu = self.scope.target
        elif device is not None and device.type == "cuda":
            on_gpu = True
        if device is not None or not call.tensors:
            options["device"] = torch.device("meta")
            options.pop("pin_memory", None)
        if "generator" in options:
            options["generator"] = None
        self._place = place = self._here() if self.recording else None
        rules.refuse_sparse_gradient(one.name, args)
        if one.name == "aten::_local_scalar_dense":
            return self._read(args[0], place)
        real = rule = picked = None
        if not one.writes and not one.random and (call.known or not call.tensors):
            real = numbers.computed(func, args, kwargs, self.ledger) if self._small(call) else None
        if real is None:
            rule = rules.data_dependent(one.name, metas)
        if rule is not None:
            picked = rules.picked_by_masks(one.name, args, self._numbers)
            results = rule(metas, options) if picked is None else rule(metas, options, picked)
        elif real is not None and one.name in ("aten::nonzero", "aten::masked_select", "aten::index"):
            results = meta_like(real)
        else:
            results = self._rules.shaped(func, one, metas, options)
        if one.writes:
            for meta in call.originals_written(func, metas, options):
                block = self.ledger.block(meta)
                if block is not None:
                    block.stale = True
        if self.recording:
            if rule is not None and picked is None and results is not metas[0]:
                self._note_branch(place, f"{one.name.partition('::')[2]}: the size of its result")
            record = self._record(
                one, place, call.tensors, _tensors(results), args, on_gpu, call.crosses(on_gpu)
            )
            if rule is not None and on_gpu:
                self._add_wait(place)
            if place.phase != "backward" and torch.is_grad_enabled():
                self.places.made(record)
        return call.give(results, on_gpu, real)

    def _numbers(self, tensor):
        return numbers.known(tensor, self.ledger)

    def _small(self, call):
        return all(numbers.keep(tensor) for tensor in call.tensors)

    def _read(self, tensor, place):
        """The number of ``item()`` and of calls that lead to it; records the wait for it."""
        self.watcher.read(tensor, self.scope.asked())
        value = numbers.known(tensor, self.ledger)
        if isinstance(tensor, VirtualTensor) and tensor.on_gpu and self.recording:
            self._add_wait(place)
        if value is not None:
            return value.item()
        if place is None:
            place = self._here()
        self._note_branch(place, "")
        return numbers.guess(tensor.dtype)

    # Recording.

    def _here(self):
        return self.places.current()

    def _record(self, one, place, ins, outs, args, on_gpu, crosses):
        taken = tuple((tuple(tensor.shape), str(tensor.dtype)[6:]) for tensor in ins)
        outs = self._given(one.name, outs, args)
        given = tuple((tuple(tensor.shape), str(tensor.dtype)[6:]) for tensor in outs)
        if not one.has_kernel:
            return self.rows.host(one.name, place)
        name = self._name(one.name, ins) if on_gpu and not self._processor else one.name
        moved = sum(_bytes(tensor) for tensor in outs)
        if one.name in _READS_LITTLE:
            moved += sum(_bytes(tensor) for tensor in ins[1:]) + sum(_bytes(tensor) for tensor in outs)
        else:
            moved += sum(_bytes(tensor) for tensor in ins)
        layout = layout_of(name, ins, outs) if on_gpu else ""
        shape, count = self.rows.shape(name, one.name, taken, given, args, moved, layout)
        if crosses:
            direction = "HtoD" if on_gpu else "DtoH"
            return self.rows.device(f"Memcpy {direction}", place, shape, 0, COPY, "copy", waits=True)
        if on_gpu:
            return self.rows.device(name, place, shape, count)
        return self.rows.host(one.name, place, shape, count)

    def _given(self, name, outs, args):
        # Normalization with known statistics returns no statistics on real tensors, unlike on meta tensors.
        return outs[:1] if name == "aten::native_batch_norm" and not args[5] else outs

    def _name(self, name, ins):
        name = _ON_GPU.get(name, name)
        if "_flash_attention" in name and ins[0].dtype is torch.float32:
            # The fastest kernel supports only half precision.
            return name.replace("_flash_", "_efficient_")
        return name

    def _add_wait(self, place):
        self.rows.host(WAIT, place, kind="runtime")

    def _changed(self, block, sign):
        if self.recording:
            self.rows.changed(block, sign, self._place or self._here())

    def _note_branch(self, place, what):
        if place.line < 0:
            return
        if not what:
            row = self.places.line(place.line)
            if not (
                self.scope.asks_for_truth() or _BRANCHES.search(linecache.getline(row["file"], row["line"]))
            ):
                return
        self.branches.setdefault((place.line, what), 0)
        self.branches[(place.line, what)] += 1


class _Call:
    """The tensors of one operator call, and the properties of its results."""

    __slots__ = ("known", "on_gpu", "tensors", "tracer", "where")

    def __init__(self, tracer):
        self.tracer = tracer
        self.tensors = []
        self.where = []
        self.on_gpu = False
        self.known = True

    def take(self, value):
        """An argument with its tensors replaced by tensors without memory."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if type(value) in (list, tuple):
            return [self.take(item) for item in value]
        return value

    def _tensor(self, tensor):
        if isinstance(tensor, VirtualTensor):
            self.on_gpu = self.on_gpu or tensor.on_gpu
            self.known = self.known and tensor.known is not None
            meta, on_gpu = tensor.meta, tensor.on_gpu
        elif tensor.is_meta:
            # PyTorch's own code created it within an operator.
            self.known = False
            meta, on_gpu = tensor, None
        else:
            meta, on_gpu = meta_like(tensor), False
        self.tensors.append(meta)
        self.where.append((tensor, on_gpu))
        return meta

    def crosses(self, on_gpu):
        """True if the call copies between host and GPU."""
        return any(gpu is not None and gpu != on_gpu for _, gpu in self.where)

    def originals_written(self, func, metas, options):
        """The tensors without memory for the arguments that the operator changes."""
        for argument, value in zip(func._schema.arguments, metas, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield from _tensors(value)
        for argument in func._schema.arguments:
            if argument.name in options and argument.alias_info is not None and argument.alias_info.is_write:
                yield from _tensors(options[argument.name])

    def give(self, results, on_gpu, real):
        """Virtual tensors for the results; an argument that was changed in place is returned itself."""
        if isinstance(results, torch.Tensor):
            return self._given(results, on_gpu, real)
        if type(results) in (list, tuple):
            reals = real if type(real) in (list, tuple) else [None] * len(results)
            return type(results)(
                self.give(one, on_gpu, number) for one, number in zip(results, reals, strict=True)
            )
        return results

    def _given(self, meta, on_gpu, real):
        for made, (tensor, _) in zip(self.tensors, self.where, strict=True):
            if made is meta:
                if isinstance(tensor, VirtualTensor) and (
                    tensor.shape != meta.shape or tensor.stride() != meta.stride()
                ):
                    tensor.become(VirtualTensor(meta, tensor.on_gpu))
                return tensor
        if not meta.is_meta:
            return meta
        self.tracer.ledger.take(meta, on_gpu)
        known = real if isinstance(real, torch.Tensor) and numbers.keep(real) else None
        return VirtualTensor(meta, on_gpu, known)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple, ValuesView)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _bytes(tensor):
    """The bytes of a tensor in memory: an expanded tensor is stored once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


_NO_KERNEL = frozenset({
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided",
    "aten::lift_fresh", "aten::_unsafe_view", "aten::lift", "aten::empty_permuted",
    "aten::_local_scalar_dense", "aten::_reshape_alias", "aten::resize_", "aten::set_", "aten::detach_",
    "aten::is_same_size", "aten::sym_size", "aten::squeeze_", "aten::unsqueeze_", "aten::t_",
    "aten::transpose_", "aten::as_strided_", "aten::_has_compatible_shallow_copy_type",
})  # fmt: skip
_known = {}


class Operator:
    """``writes``: changes an argument. ``views``: returns a view of an argument. ``random``: draws random numbers."""

    __slots__ = ("has_kernel", "is_copy", "name", "random", "views", "writes")

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        aliases = [argument.alias_info for argument in schema.arguments if argument.alias_info is not None]
        self.writes = any(alias.is_write for alias in aliases)
        self.views = bool(aliases) and not self.writes
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.has_kernel = not self.views and self.name not in _NO_KERNEL
        self.is_copy = self.name in ("aten::_to_copy", "aten::copy_")


def operator(func):
    """The cached description of an overload."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = Operator(func)
    return found


CHANNELS_LAST = "channels last"
MIXED = "mixed"
_LITTLE = 4096
"""In tensors with fewer elements, the order makes no difference."""


def layout_of(name, ins, outs):
    """``channels last``, ``mixed`` if a call changes the order, or empty if the order is the usual one."""
    if name.startswith("aten::convolution"):
        image, weight = ins[1:3] if "backward" in name else ins[:2]
        return CHANNELS_LAST if CHANNELS_LAST in (_order(image), _order(weight)) else ""
    orders = {order for tensor in (*ins, *outs) if (order := _order(tensor))}
    if orders == {CHANNELS_LAST}:
        return CHANNELS_LAST
    return MIXED if len(orders) > 1 else ""


def _order(tensor):
    """The order of a tensor's dimensions by stride; empty if the order makes no difference."""
    shape = tensor.shape
    if tensor.dim() < 3 or tensor.numel() < _LITTLE:
        return ""
    if tensor.dim() == 4 and (shape[1] == 1 or shape[2] * shape[3] == 1):
        return ""
    if tensor.is_contiguous():
        return "first"
    strides = [
        (stride, -place) for place, stride in enumerate(tensor.stride()) if shape[place] > 1 and stride > 0
    ]
    ordered = [-place for _, place in sorted(strides, reverse=True)]
    if ordered == sorted(ordered):
        return "first"
    dense = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return CHANNELS_LAST if dense else f"other {ordered}"
