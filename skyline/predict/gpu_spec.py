"""The peak capabilities of a GPU, as stated by its vendor."""

from __future__ import annotations

from dataclasses import replace

from skyline.lazy_dataclass import dataclass

PROCESSOR_VENDOR = "CPU"
"""The vendor field of processors, for any vendor."""


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One model of GPU. Peaks are dense TFLOP/s, None for formats without hardware support.

    ``tflops_fp32`` is the peak of ordinary 32-bit matrix products; for AMD's CDNA parts this is the peak of the matrix
    units, which PyTorch uses for them. ``tflops_fp64`` likewise. ``memory_bytes`` is the driver's figure, which is less
    than the advertised size. ``compute_capability`` is the result of ``torch.cuda.get_device_capability``.
    ``board_power_watts`` identifies boards that cannot sustain their clock. ``link_gb_s`` is the direct link to other
    GPUs (NVLink, Infinity Fabric), None without one. ``pcie_gb_s`` is the bus to the host. Both are in GB/s, the sum of
    both directions, as stated by vendors.
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
    """True if the 16-bit peak applies to matrix units. Older GPUs have it for plain arithmetic only."""
    tflops_fp64: float | None = None
    """None if the vendor does not state it."""
    link_gb_s: float | None = None
    pcie_gb_s: float | None = None
    source: str = ""
    """Source of the figures; the memory is PyTorch's figure for such a GPU."""
    own: bool = False
    """True if the user added it in their own file."""

    def limited(self, memory_bytes: int | None) -> GpuSpec:
        """The same GPU with another amount of memory; None changes nothing."""
        return self if memory_bytes is None else replace(self, memory_bytes=memory_bytes)

    @property
    def is_processor(self) -> bool:
        """True for a CPU: the host then does the work itself, in the machine's memory."""
        return self.vendor == PROCESSOR_VENDOR

    @property
    def generation(self) -> str:
        """NVIDIA's number of the generation, such as ``8.0``. AMD's generations are named by their architecture."""
        major, minor = self.compute_capability
        return f"{major}.{minor}" if self.vendor == "NVIDIA" else self.architecture

    def tflops_in(self, number_format: str) -> float:
        """The peak of matrix products in a format. Formats without hardware support run at the peak of float32."""
        stated = {
            "float64": self.tflops_fp64,
            "tfloat32": self.tflops_tf32,
            "float16": self.tflops_fp16,
            "bfloat16": self.tflops_bf16,
        }
        if number_format.startswith("float8"):
            return self.tflops_fp8 or self.tflops_in("bfloat16")
        return stated.get(number_format) or self.tflops_fp32
