"""Processors as devices that times can be predicted for: this machine's, and those with imported measurements."""

from __future__ import annotations

from skyline.calibrate.machine import CalibratedDevice, processor
from skyline.calibrate.store import stored
from skyline.predict.gpu_spec import PROCESSOR_VENDOR, GpuSpec

_BANDWIDTH_PER_THREAD_GB_S = 8.0
_MOST_BANDWIDTH_GB_S = 100.0
"""Assumed without measurements: the bandwidth that one thread reaches, and the most that a socket reaches."""
_WATTS_PER_THREAD = 8
"""Assumed: server processors are rated for four to six watts per core, desktop processors for ten to fifteen."""


def processors() -> tuple[GpuSpec, ...]:
    """This machine's processor, named ``cpu``, then the other known ones."""
    known = [machine for machine, _ in stored() if machine.device == "cpu"]
    here = processor()
    # The number of PyTorch's threads is known after the first query.
    own = next((machine for machine in known if machine.name == here.name), here)
    others = [machine for machine in known if machine.slug != own.slug]
    return (_spec(own, "cpu"), *(_spec(machine, machine.slug) for machine in others))


def _spec(machine: CalibratedDevice, name: str) -> GpuSpec:
    return GpuSpec(
        name=name,
        full_name=f"{machine.name}, {machine.threads} threads",
        vendor=PROCESSOR_VENDOR,
        architecture="processor",
        memory_bytes=machine.memory_bytes,
        bandwidth_gb_s=min(_MOST_BANDWIDTH_GB_S, _BANDWIDTH_PER_THREAD_GB_S * machine.threads),
        multiprocessors=machine.threads,
        clock_mhz=machine.clock_mhz,
        l2_bytes=machine.cache_bytes,
        compute_capability=(7, 0),
        board_power_watts=_WATTS_PER_THREAD * machine.threads,
        tflops_fp32=round(machine.gflops / 1e3, 3),
        aliases=(machine.slug,),
        source="what the system says of this machine" if name == "cpu" else "a file of measurements",
    )
