"""Costs of reading data sets in a traced script, and the script's requests to its GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.shape_session import GpuTarget, trace_shapes
from skyline.trace.profile import Profile
from skyline.trace.record import RecordKind

pytestmark = pytest.mark.capture
GPU = GpuTarget("Imaginary 24", 24 * 2**30, (8, 6), 80)

LOADING = """
import time
import torch

batch_size = 64


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 6400

    def __getitem__(self, index):
        until = time.thread_time() + {seconds}
        while time.thread_time() < until:
            pass
        return torch.ones(4{where}).cos(), torch.zeros(1)


loader = torch.utils.data.DataLoader(Slow(), batch_size=batch_size, num_workers={workers})
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
capable = torch.cuda.get_device_capability() >= (8, 0)
for x, y in loader:
    loss = (model(x.cuda()) - y.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def traced(script: Callable[..., Path], starter: Starter) -> Callable[..., Profile]:
    def trace(seconds: float, where: str = "", workers: int = 0) -> Profile:
        text = LOADING.replace("{seconds}", str(seconds)).replace("{where}", where)
        request = CaptureRequest(script=script(text.replace("{workers}", str(workers))))
        return trace_shapes(request, GPU, progress=lambda _: None, starter=starter)

    return trace


def test_a_batch_is_read_without_being_traced_and_timed_by_line(traced: Callable[..., Profile]) -> None:
    profile = traced(0.002)
    assert profile.untimed_loading == ""
    assert sum(read.took_us for read in profile.timed_reads) >= 64 * 2_000
    records = [record for record in profile.trace.records if record.kind is RecordKind.DATA]
    assert not any("cos" in record.name for record in records)
    assert len(records) == len(profile.timed_reads)
    dearest = max(profile.timed_reads, key=lambda read: read.took_us)
    record = next(one for one in records if one.start_us == dearest.start_us)
    assert profile.trace.lines[record.line].function == "Slow.__getitem__"
    sizes = [read.tensor_bytes for read in profile.timed_reads if read.tensor_bytes]
    assert sizes == [(64 * 4 * 4, 64 * 4)]


def test_samples_that_were_repeated_are_counted_as_read(traced: Callable[..., Profile]) -> None:
    profile = traced(0.035)
    assert 64 in profile.batch.leading_dimensions
    assert "repeated" in " ".join(profile.notes)
    assert sum(read.took_us for read in profile.timed_reads) >= 64 * 35_000
    assert profile.repeated_reads == ()
    assert profile.asked_of_gpu == ("get_device_capability",)


def test_a_data_set_that_is_quick_is_read_in_full(traced: Callable[..., Profile]) -> None:
    profile = traced(0.0, workers=3)
    assert "repeated" not in " ".join(profile.notes)
    (loader,) = profile.loaders
    assert (loader.num_workers, loader.prefetch_factor) == (3, 2)


def test_a_data_set_that_needs_the_gpu_is_traced_and_its_time_left_out(
    traced: Callable[..., Profile],
) -> None:
    profile = traced(0.035, where=", device='cuda'")
    assert profile.timed_reads == ()
    assert profile.untimed_loading == "the data set cannot be read without the GPU"
    (read,) = profile.repeated_reads
    assert read.times == 64 / 8
