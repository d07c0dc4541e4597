"""The accelerators that the user's PyTorch finds, and whether its profiler records them: for ``skyline doctor``."""

from __future__ import annotations

from typing import Literal, cast

from skyline.capture.interpreter import NOT_FROM_HERE
from skyline.lazy_dataclass import dataclass

# Runs under the user's interpreter, so it must work with any Python 3 and without Skyline. The kinds are the same as
# in the child's ``devices.backend``, because a recording queries the same modules.
PROBE = (
    NOT_FROM_HERE
    + """
import json
facts = {"python": sys.version.split()[0]}

def accelerators():
    own = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")()
    for kind in ("cuda", "xpu", "mps", own):
        module = getattr(torch, kind, None)
        try:
            if kind == "mps":
                names = ["Apple GPU"] if torch.backends.mps.is_available() else []
            elif module is None or not module.is_available():
                names = []
            else:
                name_of = getattr(module, "get_device_name", lambda index: kind)
                names = [name_of(index) for index in range(module.device_count())]
        except Exception as error:
            facts.setdefault("unasked", type(error).__name__ + ": " + str(error))
            names = []
        if names:
            yield kind, module, names

def recorded_kernels(kind, module):
    from torch.profiler import ProfilerActivity, profile
    name = {"cuda": "CUDA", "xpu": "XPU", "mps": ""}.get(kind, "PrivateUse1")
    activity = getattr(ProfilerActivity, name, None) if name else None
    if activity is None:
        return None
    numbers = torch.zeros(8, device=kind)
    module.synchronize()
    with profile(activities=[ProfilerActivity.CPU, activity]) as recording:
        numbers.add_(1)
        module.synchronize()
    cpu = torch.autograd.DeviceType.CPU
    return sum(event.device_type() != cpu for event in recording.profiler.kineto_results.events())

try:
    import torch
    facts["torch"] = torch.__version__
    facts["threads"] = torch.get_num_threads()
    facts["cuda_built"] = bool(torch.version.cuda)
    facts["cpu"] = torch.backends.cpu.get_cpu_capability()
    facts["gpus"] = []
    for kind, module, names in accelerators():
        facts["gpus"] += names
        if "kind" in facts:
            continue
        facts["kind"] = "rocm" if kind == "cuda" and getattr(torch.version, "hip", None) else kind
        try:
            facts["kernels"] = recorded_kernels(kind, module)
        except Exception as error:
            facts["unrecorded"] = type(error).__name__ + ": " + str(error)
except ImportError as error:
    facts["error"] = str(error)
except Exception as error:
    facts["error"] = type(error).__name__ + ": " + str(error)
print(json.dumps(facts))
"""
)

_HOST_ONLY = "Until then, times of lines are those of the host."
_UNRECORDED = (
    (
        "INSUFFICIENT_PRIVILEGES",
        (
            "The driver shows its GPUs to administrators only: set NVreg_RestrictProfilingToAdminUsers=0 for the "
            "nvidia module and load it again; in a container, add the capability SYS_ADMIN."
        ),
    ),
    (
        "MULTIPLE_SUBSCRIBERS",
        "Another profiler uses the GPU (Nsight, DCGM's profiling counters, a debugger): stop it.",
    ),
)
_BY_KIND = {
    "cuda": (
        "Stop other profilers (Nsight, DCGM's profiling counters), check that the CUPTI for PyTorch's CUDA "
        "can be loaded "
        "(nvidia-cuda-cupti), and check that the driver allows profiling (NVreg_RestrictProfilingToAdminUsers=0)."
    ),
    "rocm": "Stop other profilers (rocprof), and check that the roctracer library of ROCm can be loaded.",
    "xpu": "Check that the library of Intel's tracing interface (intel-pti) is installed with torch.",
}


def gpu_recording(facts: dict[str, object]) -> Check:
    """Check that PyTorch's profiler records kernels of the GPU. Otherwise the times of kernels are unknown."""
    name, kind = "GPU recording", str(facts.get("kind", "cuda"))
    if facts.get("kernels"):
        return Check(name, "ok", "PyTorch's profiler records kernels")
    told = str(facts.get("unrecorded") or facts.get("said") or "")
    if not told and "kernels" in facts and facts["kernels"] is None:
        finding = f"PyTorch's profiler records no kernels of devices of the kind {kind}"
        return Check(
            name, "warning", finding, "Iterations are timed; lines and phases are those of the host."
        )
    finding = "PyTorch's profiler did not record a kernel that ran" + (f": {told}" if told else "")
    usual = (
        f"{_BY_KIND.get(kind, 'Check whether its backend reports its activities to Kineto.')} {_HOST_ONLY}"
    )
    remedy = next((remedy for mark, remedy in _UNRECORDED if mark in told), usual)
    return Check(name, "warning", finding, remedy)


def found_devices(facts: dict[str, object]) -> Check:
    """Check the accelerators, by name. Warns if torch is built for CUDA but finds no GPU."""
    gpus = cast(list[str], facts["gpus"])
    if gpus:
        return Check("devices", "ok", f"CPU, {', '.join(gpus)}")
    if facts.get("unasked"):
        return Check(
            "devices", "warning", f"CPU only: an accelerator could not be queried: {facts['unasked']}"
        )
    if facts["cuda_built"]:
        return Check(
            "devices",
            "warning",
            "CPU only: torch has CUDA but finds no GPU",
            "Check nvidia-smi if there should be one.",
        )
    return Check("devices", "ok", "CPU only: this torch is built without CUDA and finds no other accelerator")


Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. ``remedy`` says how to solve a problem."""

    name: str
    verdict: Verdict
    finding: str
    remedy: str = ""
