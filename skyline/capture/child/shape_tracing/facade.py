"""A simulated GPU for queries of a script: the answers of ``torch.cuda`` and related modules."""

from __future__ import annotations

import contextlib
import copyreg
import os
import sys

import torch

from . import compiler
from .virtual import GPU, VirtualTensor

_LEGACY = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}
_TELLING = (
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_bf16_supported",
)
"""Queries whose answers differ between GPUs."""
_NOT_THEIRS = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


class Properties:
    """``torch.cuda.get_device_properties``."""

    def __init__(self, gpu):
        self.name = gpu["name"]
        self.total_memory = gpu["memory_bytes"]
        self.major, self.minor = gpu["compute_capability"]
        self.multi_processor_count = gpu["multiprocessors"]
        self.warp_size = 32
        self.max_threads_per_multi_processor = 2048
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 49152
        self.L2_cache_size = 0
        self.is_integrated = self.is_multi_gpu_board = False
        self.gcnArchName = ""


class Stream:
    """The only stream, to which all work belongs; also used as an event."""

    device = GPU
    cuda_stream = 0
    priority = 0

    def __init__(self, tracer=None, *_, **__):
        self._tracer = tracer

    def synchronize(self):
        if self._tracer is not None:
            self._tracer.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing()

    def query(self):
        return True

    def elapsed_time(self, _):
        return 1.0

    def record_event(self, event=None):
        return event or self


class LegacyType:
    """``torch.cuda.FloatTensor`` and similar types: a call makes a tensor on the GPU."""

    def __init__(self, name, dtype):
        self.__name__ = name
        self.__module__ = "torch.cuda"
        self.dtype = dtype

    def __call__(self, *values):
        if len(values) == 1 and not isinstance(values[0], int):
            return torch.tensor(values[0], dtype=self.dtype, device=GPU)
        return torch.empty(*values, dtype=self.dtype, device=GPU)

    def __instancecheck__(self, value):
        return isinstance(value, VirtualTensor) and value.on_gpu and value.dtype is self.dtype


class _Generator(torch.Generator):
    """A generator for any device, which is actually on the host."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, device="cpu")


def _nothing():
    """A new function that does nothing; the compiler's tables do not allow one function in two places."""
    return lambda *_, **__: None


class Facade:
    """Replaces PyTorch's answers by those of one GPU."""

    def __init__(self, tracer, gpu):
        self._tracer = tracer
        self._gpu = gpu
        self.compiled = False
        self.asked = set()

    def install(self):
        """Patch PyTorch; call it before the script runs."""
        self._queries()
        self._memory()
        self._streams()
        if self._gpu.get("processor"):
            _as_on_processors()
        else:
            self._precision()
        for name, dtype in _LEGACY.items():
            setattr(torch.cuda, name, LegacyType(name, dtype))
        torch.set_default_tensor_type = _default_type(torch.set_default_tensor_type)
        torch.Generator = _Generator
        install_device_type()

    def install_everywhere(self):
        """Patch what also applies when a CPU is traced: nothing compiles, nothing trains in other processes."""
        torch.compile = self._not_compiled
        torch.jit.script = _unchanged
        torch.jit.trace = _unchanged
        torch.nn.Module.compile = _nothing()
        torch.nn.RNNBase.flatten_parameters = _nothing()
        torch.distributions.Distribution.set_default_validate_args(False)
        torch.nn.DataParallel.__new__ = staticmethod(lambda cls, module, *_, **__: module)
        scaler = torch.amp.GradScaler
        scaler._maybe_opt_step = _stepped
        torch.optim.Optimizer._accelerator_graph_capture_health_check = _nothing()
        torch.optim.Optimizer._cuda_graph_capture_health_check = _nothing()
        torch.optim.Optimizer._patch_track_step_called = getattr(
            torch.optim.Optimizer, "_patch_track_step_called", _nothing()
        )
        compiler.install()
        from torch.utils import _foreach_utils as foreach

        for module in (foreach, sys.modules["torch.optim.optimizer"]):
            if VirtualTensor not in module._foreach_supported_types:
                module._foreach_supported_types.append(VirtualTensor)

        torch._C._group_tensors_by_device_and_dtype = _grouped(torch._C._group_tensors_by_device_and_dtype)

    def _not_compiled(self, model=None, **_):
        self.compiled = True
        return _unchanged if model is None else model

    def _queries(self):
        gpu = self._gpu
        properties = Properties(gpu)
        cuda = torch.cuda
        answers = {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": _nothing(),
            "_lazy_init": _nothing(),
            "_is_compiled": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": _nothing(),
            "get_device_name": lambda *_: gpu["name"],
            "get_device_capability": lambda *_: tuple(gpu["compute_capability"]),
            "get_device_properties": lambda *_: properties,
            "get_arch_list": lambda: ["sm_{}{}".format(*gpu["compute_capability"])],
            "is_bf16_supported": lambda *_, **__: gpu["compute_capability"][0] >= 8,
            "synchronize": lambda *_: self._tracer.wait(),
            "manual_seed": _nothing(),
            "manual_seed_all": _nothing(),
            "seed": _nothing(),
            "seed_all": _nothing(),
            "get_rng_state": lambda *_: torch.get_rng_state(),
            "set_rng_state": _nothing(),
            "get_rng_state_all": lambda: [torch.get_rng_state()],
            "set_rng_state_all": _nothing(),
            "ipc_collect": _nothing(),
            "device": lambda *_: contextlib.nullcontext(),
            "device_of": lambda *_: contextlib.nullcontext(),
        }
        for name in _TELLING:
            answers[name] = self._noted(name, answers[name])
        for name, answer in answers.items():
            setattr(cuda, name, answer)
        cuda.random.manual_seed = _nothing()
        cuda.random.manual_seed_all = _nothing()
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None:
            accelerator.is_available = lambda: True
            accelerator.device_count = lambda: 1
            accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
            accelerator.current_device_index = accelerator.current_device_idx = lambda: 0
            accelerator.set_device_index = _nothing()
            accelerator.set_device_idx = _nothing()
            accelerator.synchronize = lambda *_: self._tracer.wait()
        torch.backends.cuda.is_built = lambda: True
        if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
            # The compiler, which libraries import, needs this function if there is a GPU.
            torch._C._cuda_getCurrentRawStream = lambda *_: 0
        torch._C._nn._parse_to = _parsed(torch._C._nn._parse_to)

    def _noted(self, name, answer):
        """A wrapper of the answer that notes calls from code other than PyTorch and Skyline."""

        def noted(*args, **kwargs):
            if not sys._getframe(1).f_code.co_filename.startswith(_NOT_THEIRS):
                self.asked.add(name)
            return answer(*args, **kwargs)

        return noted

    def _memory(self):
        ledger, total = self._tracer.ledger, self._gpu["memory_bytes"]
        cuda = torch.cuda

        def live(*_):
            return ledger.live_bytes[True]

        def peak(*_):
            return ledger.peak_bytes[True]

        def free(*_):
            return max(0, total - live()), total

        for module in (cuda, cuda.memory):
            module.memory_allocated = module.memory_reserved = module.memory_cached = live
            module.max_memory_allocated = module.max_memory_reserved = module.max_memory_cached = peak
            module.mem_get_info = self._noted("mem_get_info", free)
            module.memory_stats = lambda *_: {
                "allocated_bytes.all.current": live(),
                "allocated_bytes.all.peak": peak(),
            }
            module.memory_summary = lambda *_, **__: ""
            module.empty_cache = _nothing()
            module.reset_peak_memory_stats = _nothing()
            module.reset_max_memory_allocated = _nothing()
            module.reset_accumulated_memory_stats = _nothing()
            module.set_per_process_memory_fraction = _nothing()

    def _streams(self):
        tracer = self._tracer

        cuda = torch.cuda

        class OwnStream(Stream):
            """The class that the script sees: it may create streams, call isinstance, or use it as an annotation."""

            def __init__(self, *_, **__):
                super().__init__(tracer)

        cuda.current_stream = cuda.default_stream = OwnStream
        cuda.Stream = cuda.Event = OwnStream
        cuda.stream = lambda *_: contextlib.nullcontext()
        cuda.set_stream = _nothing()
        for name in ("range_push", "range_pop", "mark"):
            setattr(cuda.nvtx, name, _nothing())

    def _precision(self):
        torch.nn.functional.scaled_dot_product_attention = _fused_attention(
            torch.nn.functional.scaled_dot_product_attention
        )
        torch._VF.dropout = _fused_dropout(torch._VF.dropout)


def _as_on_processors():
    """Make optimizers process parameters one by one, which is the default on processors."""
    for name in ("torch.optim.optimizer", "torch.optim.swa_utils"):
        module = sys.modules.get(name)
        if hasattr(module, "_get_foreach_kernels_supported_devices"):
            module._get_foreach_kernels_supported_devices = list


def _unchanged(thing=None, *_, **__):
    return thing if thing is not None else _unchanged


def _stepped(self, optimizer, optimizer_state, *args, **kwargs):
    """Always step: gradient scaling without numbers finds no infinite gradients."""
    return optimizer.step(*args, **kwargs)


def _fused_attention(attention):
    """Adapt arguments: the GPU's fused kernel supports dropout and one mask for all samples, the CPU's does not."""

    def scaled_dot_product_attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        if isinstance(query, VirtualTensor) and query.on_gpu:
            dropout_p = 0.0
            if attn_mask is not None and attn_mask.dim() == 3 and query.dim() == 4:
                attn_mask = attn_mask[None]
        return attention(
            query,
            key,
            value,
            attn_mask=attn_mask,
            dropout_p=dropout_p,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )

    return scaled_dot_product_attention


def _fused_dropout(dropout):
    """Use the operator of the GPU, which draws and applies the mask in one kernel and stores one byte per element."""

    def fused(inputs, p, train):
        if train and 0 < p < 1 and isinstance(inputs, VirtualTensor) and inputs.on_gpu:
            return torch.native_dropout(inputs, p, True)[0]
        return dropout(inputs, p, train)

    return fused


def _default_type(set_default):
    def set_default_tensor_type(kind):
        name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
        if isinstance(kind, LegacyType) or ".cuda." in name:
            torch.set_default_dtype(_LEGACY[name.rpartition(".")[2]])
            torch.set_default_device(GPU)
            return
        set_default(kind)

    return set_default_tensor_type


def _grouped(group):
    """A wrapper that groups virtual tensors under the device that they report."""

    def grouped(*args, **kwargs):
        found = {}
        for (device, dtype), (lists, indices) in group(*args, **kwargs).items():
            first = lists[0][0]
            found[(first.device if isinstance(first, VirtualTensor) else device, dtype)] = (lists, indices)
        return found

    return grouped


def _parsed(parse):
    def parse_to(*args, **kwargs):
        args = tuple(
            GPU if isinstance(value, int) and not isinstance(value, bool) else value for value in args
        )
        return parse(*args, **kwargs)

    return parse_to


_device = torch.device


class _DeviceType(type):
    """The metaclass of a class that replaces ``torch.device``: calls create real devices, which are its instances."""

    def __call__(cls, *args, **kwargs):
        asked = args[0] if args else kwargs.get("device")
        if isinstance(asked, int) and not isinstance(asked, bool) and len(args) + len(kwargs) == 1:
            return _device("cuda", asked)
        return _device(*args, **kwargs)

    def __instancecheck__(cls, value):
        return isinstance(value, _device)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, _device)

    def __eq__(cls, other):
        return other is cls or other is _device

    def __hash__(cls):
        return hash(_device)

    def __getattr__(cls, name):
        return getattr(_device, name)


def install_device_type():
    """Replace ``torch.device``; devices can still be pickled."""
    facade = _DeviceType("device", (), {"__module__": "torch", "__doc__": _device.__doc__, "__slots__": ()})
    copyreg.pickle(_device, lambda device: (facade, (str(device),)))
    torch.device = facade
