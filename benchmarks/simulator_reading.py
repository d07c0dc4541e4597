"""Measures the time to read profiler traces, relative to decoding their JSON alone, and the memory for a large one.

Every trace of a folder is read several times, in turns with Python's own ``json.loads`` of the same unpacked text,
which only gives dictionaries without any joins. A large file, made of shifted copies of one trace, is read in its own
process. Its peak of resident memory (Linux) shows if the text is held in memory.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.trace.kineto.reader import read

TURNS = 5
LARGE_BYTES = 300_000_000
LARGE_FROM = "kineto_2101_resnet50_workers0.json.gz"

MEASURED = """
import json, sys, time
from pathlib import Path
def peak():
    # Not getrusage: its peak is inherited from the parent.
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
if sys.argv[1] == "skyline":
    from skyline.trace.kineto.reader import read
    before, start = peak(), time.perf_counter()
    events = len(read(Path(sys.argv[2])))
else:
    import gzip
    path = Path(sys.argv[2])
    before, start = peak(), time.perf_counter()
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events = len(json.loads(text)["traceEvents"])
print(json.dumps({"events": events, "grown_bytes": peak() - before, "seconds": time.perf_counter() - start}))
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """One trace. ``ratio`` is reading, including unpacking, over ``json.loads`` alone: the median over turns."""

    name: str
    events: int
    text_bytes: int
    seconds: float
    ratio: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Large:
    """A large file, read by ``reader`` in its own process."""

    file: str
    reader: str
    file_bytes: int
    text_bytes: int
    events: int
    grown_bytes: int
    seconds: float


def reading(path: Path, turns: int = TURNS) -> Reading:
    """Time one trace."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace = read(path)
    seconds: list[float] = []
    ratios: list[float] = []
    for _ in range(turns):
        seconds.append(_timed(lambda: read(path)))
        ratios.append(seconds[-1] / _timed(lambda: json.loads(text)))
    notes = tuple(map(str, trace.notes))
    return Reading(path.name, len(trace), len(text), median(seconds), median(ratios), notes)


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    kept = work()
    took = time.perf_counter() - start
    del kept
    return took


def enlarge(source: Path, target: Path, size_bytes: int) -> int:
    """Write copies of a trace's events with shifted times and correlations. Returns the number of events."""
    text = gzip.decompress(source.read_bytes()).decode()
    start, end = text.index("[") + 1, text.rindex("]")
    events = text[start:end].rstrip()
    span_us, most = 10_000_000, 10_000_000
    numbers = re.compile(r'"(ts|correlation|[Ee]xternal id)": (\d+)')
    copies = 0
    with gzip.open(target, "wt", compresslevel=1) if target.suffix == ".gz" else target.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        while copies * len(events) < size_bytes:
            shift = {"ts": copies * span_us}

            def shifted(found: re.Match[str], shift: dict[str, int] = shift, copy: int = copies) -> str:
                return f'"{found[1]}": {int(found[2]) + shift.get(found[1], copy * most)}'

            file.write(("," if copies else "") + numbers.sub(shifted, events))
            copies += 1
        file.write("]}")
    return copies


def large(source: Path, size_bytes: int = LARGE_BYTES) -> list[Large]:
    """A large file, plain and packed, read by Skyline and by ``json``."""
    found: list[Large] = []
    with tempfile.TemporaryDirectory(prefix="skyline-reading-") as folder:
        for name in ("large.json", "large.json.gz"):
            path = Path(folder) / name
            copies = enlarge(source, path, size_bytes)
            text_bytes = copies * len(gzip.decompress(source.read_bytes()))
            for reader in ("skyline", "json.loads"):
                command = [sys.executable, "-c", MEASURED, reader, str(path)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found.append(Large(name, reader, path.stat().st_size, text_bytes, **json.loads(done.stdout)))
            path.unlink()
    return found


def page(readings: list[Reading], larges: list[Large]) -> str:
    """The figures as Markdown."""
    rows = [
        [one.name, f"{one.events:,}", f"{one.text_bytes / 1e6:.1f}", f"{one.seconds * 1000:.0f}",
         f"{one.ratio:.2f}", "; ".join(one.notes) or "-"]
        for one in readings
    ]  # fmt: skip
    head = ["trace", "events", "text, MB", "read, ms", "of json.loads", "remarks"]
    large_rows = [
        [one.file, one.reader, f"{one.file_bytes / 1e6:.0f}", f"{one.text_bytes / 1e6:.0f}", f"{one.events:,}",
         f"{one.grown_bytes / 1e6:.0f}", f"{one.seconds:.1f}"]
        for one in larges
    ]  # fmt: skip
    large_head = ["file", "read by", "file, MB", "text, MB", "events", "memory grew by, MB", "s"]
    text = "Reading includes unpacking; `json.loads` is given the unpacked text. Medians of turns.\n\n"
    return f"{text}{table(head, rows)}\n\n## A large file\n\n{table(large_head, large_rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="a folder of profiler traces (*.json.gz)")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--large-mb", type=float, default=LARGE_BYTES / 1e6, help="0: no large file")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    readings = [reading(path, asked.turns) for path in sorted(asked.traces.glob("*.json.gz"))]
    larges = large(asked.traces / LARGE_FROM, int(asked.large_mb * 1e6)) if asked.large_mb else []
    figures = {"readings": [asdict(one) for one in readings], "large": [asdict(one) for one in larges]}
    print(write("simulator_reading", "Reading profiler traces", machine, page(readings, larges), figures,
                results=asked.results))  # fmt: skip


if __name__ == "__main__":
    main()
