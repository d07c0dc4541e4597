"""What a GPU can do at most, as its maker states it."""

from __future__ import annotations

from dataclasses import dataclass

PROCESSOR_VENDOR = "CPU"
"""What stands as the vendor of processors, whoever makes them."""


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One model of GPU. Peaks are dense TFLOP/s, None where the hardware has no such format.

    ``tflops_fp32`` is what ordinary 32-bit matrix products can reach: on AMD's CDNA parts that of the matrix units,
    which PyTorch uses for them. ``tflops_fp64`` likewise. ``memory_bytes`` is what the driver reports, which is less
    than what is printed on the box. ``compute_capability`` is the pair that ``torch.cuda.get_device_capability``
    gives. ``board_power_watts`` tells the boards that cannot hold their clock. ``link_gb_s`` is the direct link to
    other GPUs (NVLink, Infinity Fabric), None without one, and ``pcie_gb_s`` the bus to the host, both in GB/s and
    both directions together, as makers state them.
    """

    name: str
    full_name: str
    vendor: str
    architecture: str
    memory_bytes: int
    bandwidth_gb_s: float
    multiprocessors: int
    clock_mhz: int
    l2_bytes: int
    compute_capability: tuple[int, int]
    board_power_watts: int
    tflops_fp32: float
    tflops_tf32: float | None = None
    tflops_fp16: float | None = None
    tflops_bf16: float | None = None
    tflops_fp8: float | None = None
    aliases: tuple[str, ...] = ()
    fp16_on_tensor_cores: bool = True
    """Whether the 16-bit peak is that of matrix units: older parts only have it for plain arithmetic."""
    tflops_fp64: float | None = None
    """None where the maker does not state it."""
    link_gb_s: float | None = None
    pcie_gb_s: float | None = None
    source: str = ""
    """Where the figures come from; the memory is what PyTorch reports of such a GPU."""
    own: bool = False
    """Whether the person added it, in a file of theirs."""

    @property
    def is_processor(self) -> bool:
        """Whether it is a CPU: the host then does the work itself, and its memory is the machine's."""
        return self.vendor == PROCESSOR_VENDOR
