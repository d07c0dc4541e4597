"""Costs of fetching a batch from a loader worker on this machine: constants of ``skyline/whatif/cost/fetching.py``.

    python benchmarks/simulator_loader.py [--rounds 60]

Reports CPU time of the script's own process, so that other programs on the machine have little effect. The cases are:
fetching a batch that is ready; fetching a batch of many tensors, with the elapsed time and the worker's CPU time; the
first reading of its shared memory, compared with private memory; freeing it; and small operators while a worker is
busy and while it is idle, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import multiprocessing.synchronize
import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
from torch.utils.data import DataLoader, Dataset

_MEGABYTES = (4, 16, 64)
_FLOATS_PER_MEGABYTE = 250_000
_TENSORS = (1, 2, 4, 8, 16)


class Ready(Dataset[torch.Tensor]):
    """Batches that cost their worker almost nothing."""

    def __init__(self, floats: int, count: int) -> None:
        self.floats, self.count = floats, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((self.floats,), float(index))


class Parts(Dataset[list[torch.Tensor]]):
    """Batches of several tensors. The first tensor has the worker's CPU time so far."""

    def __init__(self, tensors: int, count: int) -> None:
        self.tensors, self.count = tensors, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        clock = torch.tensor([time.process_time()], dtype=torch.float64)
        return [clock, *(torch.zeros(100) for _ in range(self.tensors - 1))]


def cpu_ms(work: Callable[[], object]) -> float:
    """The CPU time of this process for the work, in ms."""
    begin = time.process_time()
    work()
    return 1e3 * (time.process_time() - begin)


def fetching(megabytes: int, rounds: int) -> tuple[float, float, float]:
    """Medians in ms: fetching a batch, the extra time to read it compared with private memory, freeing it."""
    floats = megabytes * _FLOATS_PER_MEGABYTE
    batches = iter(DataLoader(Ready(floats, rounds + 8), batch_size=None, num_workers=1, prefetch_factor=4))
    target, private = torch.empty(floats), torch.ones(floats)
    taken: list[float] = []
    read: list[float] = []
    returned: list[float] = []
    for _ in range(rounds):
        time.sleep(0.01 + 0.005 * megabytes)
        held: list[torch.Tensor] = []
        taken.append(cpu_ms(lambda held=held: held.append(next(batches))))
        shared = cpu_ms(lambda held=held: target.copy_(held[0]))
        read.append(shared - cpu_ms(lambda: target.copy_(private)))
        returned.append(cpu_ms(held.clear))
    return median(taken), median(read), median(returned)


def handing(tensors: int, rounds: int) -> tuple[float, float, float]:
    """Medians in ms for fetching a batch: the script's CPU time, the elapsed time, the worker's CPU time."""
    batches = iter(DataLoader(Parts(tensors, rounds + 8), batch_size=None, num_workers=1))
    taken: list[float] = []
    took: list[float] = []
    clocks: list[float] = []
    for _ in range(rounds):
        time.sleep(0.012)
        held: list[list[torch.Tensor]] = []
        begin = time.perf_counter()
        taken.append(cpu_ms(lambda held=held: held.append(next(batches))))
        took.append(1e3 * (time.perf_counter() - begin))
        clocks.append(1e3 * float(held[0][0]))
    made = [later - earlier for earlier, later in itertools.pairwise(clocks)]
    return median(taken), median(took), median(made)


def prepare(go: multiprocessing.synchronize.Event, end: multiprocessing.synchronize.Event) -> None:
    """A worker that makes batches of images while ``go`` is set."""
    torch.set_num_threads(1)
    image = torch.randint(0, 255, (224, 224, 3), dtype=torch.uint8)
    while not end.is_set():
        if not go.wait(0.05):
            continue
        made = [image.permute(2, 0, 1).float().div_(255).sub_(0.5).div_(0.5) for _ in range(32)]
        torch.stack(made).share_memory_()


def small_operators() -> None:
    """The work of a CPU-bound training loop: operators that need almost no time."""
    left, right = torch.ones(64), torch.ones(64)
    for _ in range(15_000):
        right = torch.relu((left + right).mul_(0.4).view(8, 8).t()).reshape(64)


def beside_a_worker(rounds: int) -> list[float]:
    """CPU time while a worker is busy over CPU time while it is idle, one ratio per round."""
    go, end = multiprocessing.Event(), multiprocessing.Event()
    worker = multiprocessing.Process(target=prepare, args=(go, end), daemon=True)
    worker.start()
    small_operators()
    ratios: list[float] = []
    for turn in range(rounds):
        times: dict[bool, float] = {}
        for busy in (False, True) if turn % 2 else (True, False):
            (go.set if busy else go.clear)()
            time.sleep(0.05)
            times[busy] = cpu_ms(small_operators)
        ratios.append(times[True] / times[False])
    end.set()
    go.set()
    worker.join()
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for megabytes in _MEGABYTES:
        taken, read, returned = fetching(megabytes, rounds)
        print(
            f"{megabytes:3} MB: taken {taken:.2f} ms, first reading {1e3 * read / megabytes:.0f} µs/MB more, "
            f"given back {1e3 * returned / megabytes:.0f} µs/MB"
        )
    for tensors in _TENSORS:
        taken, took, made = handing(tensors, rounds)
        print(
            f"{tensors:3} tensors: {taken:.2f} ms of CPU, taken in {took:.2f} ms, worker {made:.2f} ms of CPU"
        )
    low, middle, high = quantiles(beside_a_worker(rounds), n=4)
    print(
        f"with a busy worker, small operators take {middle:.3f} times the CPU time (quartiles {low:.3f}, {high:.3f})"
    )


if __name__ == "__main__":
    main()
