"""Results of capture for scripts that run as they should."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.trace.record import Phase, RecordKind
from skyline.trace.trial import batch_trials

pytestmark = pytest.mark.capture


Write = Callable[..., Path]
Run = Callable[..., Profile]


def line_number(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_a_plain_loop_gives_times_lines_memory_and_a_curve(script: Write, run: Run) -> None:
    path = script()
    before = path.read_bytes()

    profile = run(path, batch_points=2)

    assert path.read_bytes() == before
    assert len(profile.times.steps_ms) >= 3
    times = profile.times
    assert len(times.steps_ms) == len(times.data_ms) == len(times.backward_ms) == len(times.optimizer_ms)
    assert profile.batch_size == 16
    assert profile.batch.samples_per_iteration == 16
    assert profile.knobs.best is not None
    assert profile.knobs.best.span.line == line_number(path, "batch_size = 16")
    assert profile.loop_line is not None
    assert profile.loop_line.line == line_number(path, "for step in")
    assert [optimizer.name for optimizer in profile.optimizers] == ["SGD"]
    assert profile.memory.parameter_bytes == 4 * (64 * 64 + 64 + 64 + 1)
    assert profile.peak_bytes > profile.memory.total_bytes

    sizes = batch_trials(profile.trials)
    assert len(sizes) == 2
    peaks = [(16, profile.peak_bytes), *((size, trial.peak_bytes) for size, trial in sizes.items())]
    assert [peak for _, peak in sorted(peaks)] == sorted(peak for _, peak in peaks)

    saved = store.save(profile, path.parent / "kept")
    assert store.load(saved) == profile


def test_records_cover_the_main_thread_without_holes_or_overlaps(script: Write, run: Run) -> None:
    trace = run(script()).trace

    for mark in trace.iterations:
        records = [
            record for record in trace.records if record.iteration == mark.index and record.lane == "cpu:main"
        ]
        records.sort(key=lambda record: record.start_us)
        assert sum(record.duration_us for record in records) == pytest.approx(
            mark.end_us - mark.start_us, rel=1e-3
        )
        for before, after in pairwise(records):
            assert after.start_us >= before.end_us - 0.01


def test_work_goes_to_the_line_and_phase_that_caused_it(script: Write, run: Run) -> None:
    path = script()
    trace = run(path).trace

    def times(text: str) -> dict[Phase, float]:
        number = line_number(path, text)
        found: dict[Phase, float] = {}
        for record in trace.records:
            if record.line >= 0 and trace.lines[record.line].line == number:
                found[record.phase] = found.get(record.phase, 0.0) + record.duration_us
        return found

    forward = times("error = model(inputs) - targets")
    assert forward[Phase.FORWARD] > 0
    assert forward[Phase.BACKWARD] > 0
    # A product written as a symbol makes no Python call: its line must be found all the same.
    symbol = times("loss = (error * error).mean()")
    assert symbol[Phase.FORWARD] > 0
    assert symbol[Phase.BACKWARD] > 0
    # Finding the method, before the call, is the loop's own time.
    step = times("optimizer.step()")
    assert step[Phase.OPTIMIZER] > 0.9 * sum(step.values())
    assert times("x = torch.randn(batch_size, 64)")[Phase.DATA] > 0
    unattributed = sum(record.duration_us for record in trace.records if record.line < 0)
    assert unattributed < 0.05 * sum(record.duration_us for record in trace.records)


def test_a_loader_is_data_and_its_facts_are_known(script: Write, run: Run) -> None:
    path = script(
        """
        import sys
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        def main():
            data = TensorDataset(torch.randn(40_000, 8), torch.randn(40_000, 1))
            loader = DataLoader(data, batch_size=int(sys.argv[1]), shuffle=True)
            model = torch.nn.Linear(8, 1)
            optimizer = torch.optim.AdamW(model.parameters(), fused=True)
            for epoch in range(100):
                for x, y in loader:
                    optimizer.zero_grad()
                    torch.nn.functional.mse_loss(model(x), y).backward()
                    optimizer.step()

        if __name__ == "__main__":
            main()
        """
    )
    profile = run(path, "10")

    [loader] = profile.loaders
    assert (profile.copied_us_per_mb > 0) == sys.platform.startswith("linux"), "loader workers share memory"
    assert (loader.batch_size, loader.num_workers, loader.dataset_size) == (10, 0, 40_000)
    assert loader.created_line is not None
    assert loader.created_line.line == line_number(path, "loader = DataLoader")
    assert profile.batch.samples_per_iteration == 10
    assert sum(profile.times.data_ms) > 0
    assert profile.optimizers[0].options["fused"] is True
    assert any(record.kind is RecordKind.DATA for record in profile.trace.records)


def test_an_iteration_of_two_optimizers_is_a_step_of_the_rarer_one(script: Write, run: Run) -> None:
    path = script(
        """
        import torch
        generator, critic = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
        slow, fast = torch.optim.SGD(generator.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
        while True:
            for _ in range(3):
                fast.zero_grad()
                critic(generator(torch.randn(5, 4)).detach()).sum().backward()
                fast.step()
            slow.zero_grad()
            critic(generator(torch.randn(5, 4))).sum().backward()
            slow.step()
        """
    )
    profile = run(path)

    assert sorted(optimizer.steps_per_iteration for optimizer in profile.optimizers) == [1, 3]


def test_without_an_optimizer_each_backward_pass_is_an_iteration(script: Write, run: Run) -> None:
    path = script(
        """
        import torch
        w = torch.randn(8, 8, requires_grad=True)
        while True:
            (torch.randn(4, 8) @ w).square().mean().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        """
    )
    profile = run(path)

    assert profile.optimizers == ()
    assert any(record.phase is Phase.BACKWARD for record in profile.trace.records)


def test_what_the_script_writes_stays_off_its_folder(script: Write, run: Run) -> None:
    path = script(
        """
        import os
        import pathlib
        import torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100_000):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
            with open("log.txt", "a") as log:
                log.write("step\\n")
            pathlib.Path("latest.txt").write_text(str(step))
            torch.save(model.state_dict(), "tmp.pt")
            os.replace("tmp.pt", "model.pt")
            model.load_state_dict(torch.load("model.pt"))
            assert open("latest.txt").read() == str(step)
        """
    )
    (path.parent / "log.txt").write_text("old\n")

    run(path)

    assert sorted(entry.name for entry in path.parent.iterdir()) == ["log.txt", "train.py"]
    assert (path.parent / "log.txt").read_text() == "old\n"


def test_a_buffer_that_is_not_saved_is_what_runs(script: Write, run: Run) -> None:
    path = script()
    buffer = path.read_text()
    path.write_text("raise SystemExit('the text on disk')")

    profile = run(path, source_overrides=((str(path), buffer),))

    assert profile.sources[0].text == buffer


def test_a_short_script_is_measured_with_what_it_has(script: Write, run: Run) -> None:
    path = script(
        """
        import torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
        """
    )
    profile = run(path)

    assert len(profile.times.steps_ms) >= 1
    assert any("6 iterations" in note for note in profile.notes)


def test_a_number_that_only_looks_like_the_batch_size_is_found_out(script: Write, run: Run) -> None:
    path = script(
        """
        import torch
        batch_size = 16
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100_000):
            optimizer.zero_grad()
            (model(torch.randn(16, 4)).sum() / batch_size).backward()
            optimizer.step()
        """
    )
    profile = run(path, batch_points=1)

    assert batch_trials(profile.trials) == {}
    assert "did not change the batch of the run" in profile.knobs.refusal
