"""Answers what ``torch.cuda`` asks of PyTorch's C part from the simulated GPU: imported at the start of Python.

Nothing is loaded before the script imports torch. The Python code of ``torch.cuda`` is unchanged.
"""

from __future__ import annotations

import ctypes
import datetime
import importlib.util
import os
import sys

_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "simulated_gpu.so")
_CUDA = 1  # c10::DeviceType::CUDA


class Named:
    """Attributes by name, and an identity, which a SimpleNamespace has not."""

    def __init__(self, **given):
        self.__dict__.update(given)


class Boot:
    """Waits on ``sys.meta_path`` for the modules of torch that must find us in place."""

    device = None
    is_looking = False

    def find_spec(self, name, path=None, target=None):
        if name == "torch._C":
            # Before it asks for the first time whether there is CUDA.
            self.device = Device()
        elif name == "torch.cuda":
            connect(sys.modules["torch._C"], self.device)
        elif name == "torch.autograd.profiler":
            activities = sys.modules["torch._C._profiler"].ProfilerActivity
            kinds = {activities.CPU, activities.CUDA}
            for holder in ("torch._C._autograd", "torch.autograd"):
                sys.modules[holder]._supported_activities = lambda: set(kinds)
        elif name == "torch.distributed.distributed_c10d" and not self.is_looking:
            provide_nccl(self.device)
            self.is_looking = True
            spec = importlib.util.find_spec(name)
            self.is_looking = False
            run = spec.loader.exec_module

            def run_and_widen(module):
                run(module)
                # Its group serves the copies in the host's memory that collectives compute with.
                module.Backend.backend_capability["nccl"] = ["cpu", "cuda"]

            spec.loader.exec_module = run_and_widen
            return spec
        return None


def provide_nccl(device):
    """Collectives of simulated GPUs are computed by Gloo, and noted on a stream of their own."""
    c10d = sys.modules["torch._C._distributed_c10d"]

    limit = datetime.timedelta(minutes=10)

    class ProcessGroupNCCL(c10d.ProcessGroupGloo):
        class Options:
            def __init__(self, is_high_priority_stream=False):
                self.is_high_priority_stream = is_high_priority_stream
                self._timeout = limit

        def __init__(self, store, rank, size, options=None):
            device.library.simulated_connect_collectives()
            super().__init__(store, rank, size, limit)

    c10d._DEFAULT_PG_NCCL_TIMEOUT = limit
    c10d.ProcessGroupNCCL = ProcessGroupNCCL


class Device:
    """The library's functions, with its refusals raised."""

    def __init__(self):
        library = self.library = ctypes.CDLL(_LIBRARY)
        library.simulated_refusal.restype = ctypes.c_char_p
        library.simulated_setting_memory_mb.restype = ctypes.c_double
        library.simulated_memory.restype = ctypes.c_int64
        library.simulated_graph.restype = ctypes.c_void_p
        library.simulated_launch.argtypes = [ctypes.c_char_p, ctypes.c_double, ctypes.c_char_p]
        library.simulated_elapsed.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        for name in ("begin_capture", "replay", "delete_graph"):
            getattr(library, f"simulated_{name}").argtypes = [ctypes.c_void_p]
        library.simulated_watch()
        self.asked = self.is_forked = False
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        # A process that has so much as counted the devices by the runtime leaves its children without them.
        self.is_forked = self.asked
        self.library.simulated_forbid(self.asked)

    def do(self, name, *given):
        if getattr(self.library, f"simulated_{name}")(*given):
            raise RuntimeError(self.library.simulated_refusal().decode())

    def count(self):
        self.asked |= os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") != "1"
        if self.is_forked or os.environ.get("CUDA_VISIBLE_DEVICES") == "":
            return 0
        return self.library.simulated_devices()

    def current(self):
        return self.library.simulated_device()

    def total_bytes(self):
        return int(self.library.simulated_setting_memory_mb() * 2**20)

    def memory(self, device):
        told = (self.library.simulated_memory(device, which) for which in range(5))
        allocated, peak, reserved, calls, refused = told

        def of(current, peak):
            return {"all": {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}}

        held = {name: of(allocated, peak) for name in ("allocated_bytes", "active_bytes", "requested_bytes")}
        return {
            **held,
            "reserved_bytes": of(reserved, reserved),
            "allocation": of(calls, calls),
            "num_ooms": refused,
        }

    def free_and_total(self, device=None):
        device = self.current() if device is None else device
        return self.library.simulated_memory(device, 5), self.total_bytes()

    def properties(self, device):
        return Named(
            name=os.environ.get("SIMULATED_GPU_NAME", "Simulated GPU"),
            total_memory=self.total_bytes(), major=8, minor=0, multi_processor_count=64, warp_size=32,
            is_integrated=False, uuid=f"GPU-{device}", L2_cache_size=2**22,
        )  # fmt: skip


def connect(C, device):
    """Give PyTorch's C part the functions and types that it has where it was built for CUDA."""
    library = device.library

    def initialize():
        cuda = sys.modules["torch.cuda"]
        library.simulated_hand_out_default(1)
        cuda.default_generators = tuple(C.Generator(f"cuda:{index}") for index in range(device.count()))
        library.simulated_hand_out_default(0)
        cuda._get_device_properties = device.properties

    def set_stream(stream_id, device_index, device_type):
        library.simulated_exchange_device(device_index)
        library.simulated_exchange_stream(device_index, stream_id)

    functions = {
        "init": initialize,
        "isInBadFork": lambda: device.is_forked,
        "getDeviceCount": device.count,
        "getDevice": device.current,
        "setDevice": library.simulated_exchange_device,
        "exchangeDevice": lambda to: library.simulated_exchange_device(to) if to >= 0 else -1,
        "maybeExchangeDevice": lambda to: library.simulated_exchange_device(to) if to >= 0 else -1,
        "synchronize": lambda: device.do("synchronize", device.current()),
        "getCurrentStream": lambda of: (library.simulated_stream(of), of, _CUDA),
        "getCurrentRawStream": library.simulated_stream,
        "getDefaultStream": lambda of: (0, of, _CUDA),
        "setStream": set_stream,
        "isCurrentStreamCapturing": lambda: bool(library.simulated_is_capturing()),
        "memoryStats": device.memory,
        "resetPeakMemoryStats": library.simulated_reset_peak,
        "resetAccumulatedMemoryStats": lambda of: None,
        "setMemoryFraction": lambda share, of: None,
        "emptyCache": lambda: library.simulated_empty_cache(device.current()),
        "clearCublasWorkspaces": lambda: None,
        "ipc_collect": lambda: None,
        "getArchFlags": lambda: "sm_80",
        "canDeviceAccessPeer": lambda one, other: True,
        "getAllocatorBackend": lambda: "native",
        "getCurrentBlasHandle": lambda: 0,
        # Its clock has a thousand million cycles a second.
        "sleep": lambda cycles: launch("spin_kernel", cycles / 1e3),
    }
    for name, function in functions.items():
        # A function of Python's: the compiler keeps them in a dictionary, and ctypes' have no hash.
        setattr(C, f"_cuda_{name}", lambda *given, _do=function, **named: _do(*given, **named))

    def launch(name, us, call="cudaLaunchKernel"):
        device.do("launch", name.encode(), us, call.encode())

    # Launches a kernel written by hand: torch._C._simulated_launch("triton_poi_0", 50, "cuLaunchKernelEx")
    C._simulated_launch = launch
    C._has_cuda = True
    C._cudart = Named(
        cudaMemGetInfo=device.free_and_total,
        cudaError=Named(success=0),
        cudaGetErrorString=str,
        cudaHostRegister=lambda *given: 0,
    )

    class StreamBase(C.Stream):
        def __new__(cls, priority=0, stream_ptr=0, **known):
            if known:
                return C.Stream.__new__(cls, **known)
            return C.Stream.__new__(cls, device="cuda", priority=priority)

        @property
        def cuda_stream(self):
            return self.stream_id

    class EventBase(C.Event):
        def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
            return C.Event.__new__(cls, device="cuda", enable_timing=enable_timing)

        @property
        def cuda_event(self):
            return self.event_id

        def elapsed_time(self, other):
            # The general one takes no event of a type derived from it.
            ms = ctypes.c_double()
            device.do("elapsed", self.event_id, other.event_id, ctypes.byref(ms))
            return ms.value

    class Graph:
        def __new__(cls, keep_graph=False):
            made = object.__new__(cls)
            made._graph = library.simulated_graph()
            return made

        def capture_begin(self, pool=None, capture_error_mode="global"):
            device.do("begin_capture", self._graph)

        def capture_end(self):
            library.simulated_end_capture()

        def instantiate(self):
            pass

        def replay(self):
            device.do("replay", self._graph)

        def reset(self):
            library.simulated_delete_graph(self._graph)
            self._graph = library.simulated_graph()

        def pool(self):
            return (0, 0)

    C._CudaStreamBase, C._CudaEventBase, C._CUDAGraph = StreamBase, EventBase, Graph
    C._graph_pool_handle = lambda: (0, 0)
    C._host_emptyCache = lambda: None
    C._nccl_version, C._nccl_version_suffix = lambda: 2 << 32, lambda: b""
    sys.modules["torch"].version.cuda = "12.8"


sys.meta_path.insert(0, Boot())
