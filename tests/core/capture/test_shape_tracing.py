"""Scripts traced for a GPU that is not there: what is known of them without computing a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from skyline.capture.process import Start, Starter, start_fresh
from skyline.capture.request import CaptureRequest
from skyline.capture.shape_session import GpuTarget, trace_shapes
from skyline.capture.warm_pool import WarmPool
from skyline.errors import CaptureImpossible
from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.trace.record import Phase, Record, RecordKind

pytestmark = pytest.mark.capture

PLAIN_START = True
"""Tracing does without the compiler where it is not there yet."""
Write = Callable[..., Path]
Run = Callable[..., Profile]
GPU = GpuTarget("Imaginary 24", 24 * 2**30, (8, 6), 80)

ATTENTION = """
import torch
from torch import nn
from torch.nn import functional as F

batch_size, length, width = 4, 32, 64
device = "cuda" if torch.cuda.is_available() else "cpu"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        parts = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, width // 4)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=0.1)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


model = Attention().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(100_000):
    inputs = torch.randn(batch_size, length, width).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = model(inputs).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if loss.item() > 100:
        raise SystemExit("diverged")
"""


def trace(path: Path, gpu: GpuTarget | None = GPU, *, starter: Starter, **options: object) -> Profile:
    request = CaptureRequest(path, working_directory=path.parent, timeout_s=60.0, **options)  # type: ignore[arg-type]
    return trace_shapes(request, gpu, progress=lambda _: None, starter=starter)


@pytest.fixture
def traced(starter: Starter) -> Run:
    return partial(trace, starter=starter)


def line_number(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def lines_of(profile: Profile, records: list[Record]) -> set[int]:
    return {profile.trace.lines[record.line].line for record in records if record.line >= 0}


def test_a_script_runs_on_a_gpu_that_is_not_there(script: Write, traced: Run) -> None:
    path = script(ATTENTION)
    profile = traced(path)
    trace = profile.trace

    assert profile.mode == "predicted"
    assert (profile.environment.device.name, profile.environment.device.kind) == ("Imaginary 24", "cuda")
    assert profile.environment.memory_capacity_bytes == 24 * 2**30
    assert profile.batch_size == 4
    assert profile.loop_line is not None
    assert profile.loop_line.line == line_number(path, "for step in")
    assert store.load(store.save(profile, path.parent / "kept")) == profile

    kernels = [record for record in trace.records if record.kind is RecordKind.KERNEL]
    launches = {record.correlation for record in trace.records if record.kind is RecordKind.RUNTIME}
    assert kernels
    assert {record.lane for record in kernels} == {"gpu:0"}
    assert all(record.correlation in launches and record.shape >= 0 for record in kernels)
    assert {record.phase for record in kernels} >= {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER}

    by_name = {record.name: record for record in kernels}
    attention = by_name["aten::_scaled_dot_product_flash_attention"]
    assert attention.flops == 2 * 2 * (4 * 4) * 32 * 32 * 16
    assert trace.modules[attention.module] == "Attention"
    assert trace.shapes[attention.shape].dtypes[:3] == ("bfloat16",) * 3
    assert trace.shapes[by_name["aten::native_layer_norm"].shape].dtypes[0] == "float32"
    assert any(name.startswith("aten::_foreach_") for name in by_name)

    # Backward work stands on the line of the forward operator that it belongs to.
    backward = [record for record in kernels if record.name.endswith("attention_backward")]
    assert lines_of(profile, backward) == {line_number(path, "F.scaled_dot_product_attention(")}
    call_lines = {trace.lines[record.call_line].line for record in backward}
    assert call_lines == {line_number(path, "loss.backward()")}


def test_one_mask_for_all_samples_keeps_attention_in_one_kernel(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        from torch.nn import functional as F
        device = "cuda"
        model = torch.nn.Linear(64, 64).to(device)
        mask = torch.zeros(4, 16, 16, device=device)
        for step in range(100_000):
            inputs = torch.randn(8, 16, 64, device=device)
            heads = model(inputs).view(8, 16, 4, 16).transpose(1, 2)
            loss = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask).square().mean()
            loss.backward()
        """
    )
    names = {record.name for record in traced(path).trace.records}
    assert "aten::_scaled_dot_product_efficient_attention" in names
    assert not any("softmax" in name for name in names)


def test_waiting_and_branching_on_a_number_is_told_with_its_line(script: Write, traced: Run) -> None:
    path = script(ATTENTION)
    profile = traced(path)
    branch = line_number(path, "if loss.item() > 100")

    waits = [record for record in profile.trace.records if "Synchronize" in record.name]
    assert all(record.kind is RecordKind.RUNTIME for record in waits)
    assert branch in lines_of(profile, waits)
    assert any(f"line {branch}" in note and "not computed" in note for note in profile.notes)


def test_the_peak_is_the_one_that_the_allocator_records(script: Write, run: Run, traced: Run) -> None:
    path = script(
        """
        import torch
        from torch import nn
        batch_size = 8
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(16 * 256, 10),
        )
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(100_000):
            loss = nn.functional.cross_entropy(model(torch.randn(batch_size, 3, 32, 32)), torch.randint(0, 10, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    recorded, known = run(path), traced(path, None)

    assert known.environment.device.kind == "cpu"
    assert known.peak_bytes == pytest.approx(recorded.peak_bytes, rel=0.03)
    assert known.memory.parameter_bytes == recorded.memory.parameter_bytes
    assert known.memory.optimizer_bytes == recorded.memory.optimizer_bytes
    net = sum(allocation.size_bytes for allocation in known.trace.allocations)
    assert abs(net) < known.peak_bytes * 0.01


def test_a_model_larger_than_memory_is_not_owned(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        model = torch.nn.Sequential(*[torch.nn.Linear(30_000, 30_000) for _ in range(3)]).cuda()
        torch.nn.init.normal_(model[0].weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        while True:
            optimizer.zero_grad()
            model(torch.randn(2, 30_000, device="cuda")).sum().backward()
            optimizer.step()
        """
    )
    profile = traced(path, memory_limit_bytes=2_000_000_000)

    parameters = 3 * (30_000 * 30_000 + 30_000) * 4
    assert profile.memory.parameter_bytes == pytest.approx(parameters, rel=1e-4)
    assert profile.peak_bytes > 3 * parameters


def test_a_script_that_stays_on_the_host_is_told_so(script: Write, traced: Run) -> None:
    profile = traced(script())

    assert profile.environment.device.kind == "cpu"
    assert any("never moves its model to a GPU" in note for note in profile.notes)
    assert profile.peak_bytes > 0


def test_numbers_that_the_script_put_in_steer_it(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        def main():
            lengths = torch.tensor([3, 1, 2]).cuda()
            assert lengths.tolist() == [3, 1, 2] and (lengths * 2).max().item() == 6
            assert torch.nonzero(lengths > 1).shape == (2, 1)
            assert torch.FloatTensor([2.0]).type(torch.cuda.FloatTensor).is_cuda
            data = TensorDataset(torch.randn(640, 8), torch.randn(640, 1))
            loader = DataLoader(data, 32, num_workers=2, pin_memory=True)
            early = [torch.nn.Parameter(torch.ones(1))]
            model = torch.compile(nn.Linear(8, 1))
            optimizer = torch.optim.SGD([*model.parameters(), *early], lr=0.1, momentum=0.9)
            model.cuda()
            assert all(p.is_cuda for group in optimizer.param_groups for p in group["params"][:2])
            scaler = torch.amp.GradScaler("cuda")
            for epoch in range(1000):
                for inputs, targets in loader:
                    inputs, targets = inputs.cuda(non_blocking=True), targets.to("cuda", non_blocking=True)
                    with torch.autocast("cuda"):
                        loss = nn.functional.mse_loss(model(inputs), targets)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()

        if __name__ == "__main__":
            main()
        """
    )
    profile = traced(path)

    [loader] = profile.loaders
    assert (loader.batch_size, loader.num_workers, loader.fetches_per_iteration) == (32, 2, 1.0)
    assert any("torch.compile" in note for note in profile.notes)
    assert profile.optimizers[0].state_bytes > 0
    dtypes = {dtype for shape in profile.trace.shapes for dtype in shape.dtypes}
    assert "float16" in dtypes
    copies = [record for record in profile.trace.records if record.kind is RecordKind.COPY]
    assert sum(record.name == "Memcpy HtoD" and record.phase is Phase.DATA for record in copies) == 2


def test_a_mask_whose_numbers_are_known_picks_as_many_as_it_says(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        from torch import nn

        class Pairs(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("upper", torch.triu(torch.ones(5, 5), diagonal=1).bool())
                self.mix = nn.Linear(8, 8)
                self.out = nn.Linear(10, 1)

            def forward(self, x):
                mixed = self.mix(x)
                products = mixed @ mixed.transpose(1, 2)
                assert products.masked_select(self.upper).shape == (10 * len(x),)
                picked = products[:, self.upper]
                assert products[products > 0].dim() == 1
                return self.out(picked)

        model = Pairs().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100_000):
            loss = model(torch.randn(4, 5, 8, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    profile = traced(path)

    guessed = [note for note in profile.notes if "half of the elements were assumed" in note]
    assert len(guessed) == 1
    assert f"line {line_number(path, 'products > 0')}" in guessed[0]


def test_an_evaluation_is_not_taken_for_the_iteration(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100_000):
            model(torch.randn(4, 64).cuda()).sum().backward()
            optimizer.step()
            if step % 100 == 0:
                model.eval()
                with torch.no_grad():
                    for _ in range(300):
                        model(torch.randn(16, 64).cuda())
                model.train()
        """
    )
    profile = traced(path)

    products = [record for record in profile.trace.records if record.name == "aten::addmm"]
    assert [profile.trace.shapes[record.shape].inputs[1] for record in products] == [(4, 64)]


def test_one_iteration_is_too_few(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        model = torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(2, 4).cuda()).sum().backward()
        optimizer.step()
        """
    )
    with pytest.raises(CaptureImpossible, match="only 1 training iteration"):
        traced(path)


def test_a_sparse_gradient_is_refused_at_the_line_that_asks_for_it(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        table = torch.nn.EmbeddingBag(100, 8, mode="sum", sparse=True).cuda()
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        for _ in range(10):
            rows = table(torch.randint(100, (4, 3)).cuda())
            rows.sum().backward()
            optimizer.step()
        """
    )
    with pytest.raises(CaptureImpossible, match="sparse gradient") as raised:
        traced(path)
    assert "sparse=False" in raised.value.hint
    assert (raised.value.file, raised.value.line) == (str(path), line_number(path, "rows = table"))


def test_earlier_versions_of_pytorch_are_refused(tmp_path: Path, script: Write) -> None:
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    (earlier / "sitecustomize.py").write_text(
        "import torch\ndel torch.get_autocast_dtype\ntorch.__version__ = '2.1.2'\n"
    )
    path = script("import torch\n")
    with pytest.raises(CaptureImpossible, match=r"needs PyTorch 2\.4 or later.* has 2\.1\.2"):
        trace(path, starter=start_fresh, variables=(("PYTHONPATH", str(earlier)),))


def test_a_stream_is_a_type_to_the_script(script: Write, traced: Run) -> None:
    path = script(
        """
        from typing import Optional
        import torch
        def side(stream: Optional[torch.cuda.Stream] = None) -> "torch.cuda.Stream | None":
            assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
            return stream
        model = torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            side(torch.cuda.Stream())
            model(torch.randn(2, 4).cuda()).sum().backward()
            optimizer.step()
        """
    )
    assert traced(path).trace.records


def test_a_gpu_may_be_named_by_its_number(script: Write, traced: Run) -> None:
    path = script(
        """
        import copy, pickle
        import torch
        device = torch.device(0)
        assert device == torch.device("cuda", 0) and isinstance(device, torch.device)
        assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device
        assert torch.device("cpu").type == "cpu" and torch.device(type="cpu") != device
        model = torch.nn.Linear(4, 4).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            model(torch.randn(2, 4, device=device)).sum().backward()
            optimizer.step()
        """
    )
    assert any(record.kind is RecordKind.KERNEL for record in traced(path).trace.records)


def test_traces_from_a_process_that_has_imported_torch_are_the_same(script: Write) -> None:
    path = script(ATTENTION)

    def never(start: Start) -> NoReturn:
        raise AssertionError("a fresh process was started")

    warm_pool = WarmPool(fallback=never)
    try:
        first, second = (trace(path, starter=warm_pool.start) for _ in range(2))
    finally:
        warm_pool.close()
    assert [record.name for record in first.trace.records] == [record.name for record in second.trace.records]
    assert first.peak_bytes == second.peak_bytes == trace(path, starter=start_fresh).peak_bytes


LAYOUTS = """
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU()).to(device, memory_format=torch.LAYOUT)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    images = torch.randn(4, 16, 32, 32).to(device, memory_format=torch.LAYOUT)
    loss = model(images).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("asked", "layout"), [("channels_last", "channels last"), ("contiguous_format", "")])
def test_operators_say_how_their_images_lie(tmp_path: Path, asked: str, layout: str, traced: Run) -> None:
    path = tmp_path / "train.py"
    path.write_text(LAYOUTS.replace("LAYOUT", asked))
    told = {
        shape.operator: shape.layout
        for shape in traced(path).trace.shapes
        if shape.operator.endswith(("convolution", "convolution_backward", "batch_norm", "relu"))
    }
    assert len(told) >= 4
    assert set(told.values()) == {layout}


def test_normalization_by_known_statistics_gives_none(script: Write, traced: Run) -> None:
    path = script(
        """
        import torch
        frozen = torch.nn.BatchNorm2d(16).cuda().eval()
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100_000):
            loss = frozen(model(torch.randn(4, 3, 8, 8).cuda())).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    shapes = [one for one in traced(path).trace.shapes if one.operator == "aten::native_batch_norm"]

    assert sorted(len(shape.outputs) for shape in shapes) == [1, 3]
