"""The machine of a measurement, described as it must be with every figure."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware, software, and the load when the measurement began."""

    when: str
    processor: str
    cores: int
    system: str
    python: str
    torch: str
    skyline: str
    load_average: float

    @classmethod
    def here(cls) -> Machine:
        """This machine, now."""
        return cls(
            when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            processor=_processor(),
            cores=os.cpu_count() or 1,
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            torch=metadata.version("torch"),
            skyline=metadata.version("skyline-profiler"),
            load_average=os.getloadavg()[0],
        )

    @property
    def is_quiet(self) -> bool:
        """True if less than half a core was busy in the minute before."""
        return self.load_average < 0.5

    def sentence(self) -> str:
        """One line for the head of a result file."""
        return (
            f"{self.when}: {self.processor}, {self.cores} cores, {self.system}, Python {self.python}, "
            f"PyTorch {self.torch}, Skyline {self.skyline}, load average {self.load_average:.2f} at the start"
        )

    def as_json(self) -> dict[str, object]:
        """The fields for the result file that programs read."""
        return asdict(self)


def warn_when_busy(machine: Machine) -> None:
    """Warn on stderr if other programs are running. The null ratios decide which rounds are discarded."""
    if not machine.is_quiet:
        print(f"load average {machine.load_average:.2f}: other programs are running here", file=sys.stderr)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
