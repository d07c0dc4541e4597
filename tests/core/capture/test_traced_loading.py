"""What reading data sets costs a traced script, and what it asks of its GPU."""

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
        until = time.process_time() + {seconds}
        while time.process_time() < until:
            pass
        return torch.ones(4).cos(), torch.zeros(1)


loader = torch.utils.data.DataLoader(Slow(), batch_size=batch_size)
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
def traced(script: Callable[..., Path], starter: Starter) -> Callable[[float], Profile]:
    def trace(seconds: float) -> Profile:
        request = CaptureRequest(script=script(LOADING.replace("{seconds}", str(seconds))))
        return trace_shapes(request, GPU, progress=lambda _: None, starter=starter)

    return trace


def test_samples_that_were_repeated_are_counted_as_read(traced: Callable[[float], Profile]) -> None:
    profile = traced(0.03)
    assert 64 in profile.batch.leading_dimensions
    assert "repeated" in " ".join(profile.notes)
    (read,) = profile.repeated_reads
    assert read.times == 64 / 8
    records = [record for record in profile.trace.records if record.kind is RecordKind.DATA]
    inside = [record.name for record in records if read.start_us <= record.start_us < read.end_us]
    assert sum("cos" in name for name in inside) == 8
    # Putting the batch together is done once and in full.
    assert sum("stack" in record.name for record in records) == 2
    assert not any("stack" in name for name in inside)
    assert profile.asked_of_gpu == ("get_device_capability",)


def test_a_data_set_that_is_quick_is_read_in_full(traced: Callable[[float], Profile]) -> None:
    profile = traced(0.0)
    assert profile.repeated_reads == ()
    assert "repeated" not in " ".join(profile.notes)
