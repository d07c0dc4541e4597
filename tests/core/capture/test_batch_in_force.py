"""The batch size of a run is the one that its loader had, and other sizes are measured wherever that is set."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.shape_session import trace_shapes
from skyline.report.build import profile_report
from skyline.trace.batch_place import batch_place
from skyline.trace.profile import Profile
from skyline.trace.trial import batch_trials
from skyline.whatif.question import Question

Write = Callable[..., Path]
Run = Callable[..., Profile]

HEAD = """
import dataclasses, json, os, pathlib, torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

@dataclasses.dataclass
class Config:
    batch_size: int = 8
    lr: float = 0.01

here = pathlib.Path(__file__).parent
data = TensorDataset(torch.randn(4096, 24), torch.randn(4096, 1))
"""
TRAINING = """
model = torch.nn.Linear(24, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10_000):
    for inputs, targets in loader:
        optimizer.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        optimizer.step()
"""
LOADER = "loader = DataLoader(data, batch_size=config.batch_size)\n"
BY_HAND = """
model = torch.nn.Linear(24, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    inputs = torch.randn(batch_size, 24)
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
"""


def shown(profile: Profile) -> tuple[int | None, str | None]:
    """The batch size, and the literal that may be rewritten."""
    knob = batch_place(profile).knob
    return profile.batch_size, knob.text if knob is not None else None


def sizes(profile: Profile) -> list[int]:
    """All that are known: those that were measured, and the script's own."""
    others = batch_trials(profile.trials)
    return sorted([*others, *([profile.batch_size] if others and profile.batch_size else [])])


@pytest.mark.parametrize(
    ("made", "literal"),
    [
        ("config = dataclasses.replace(Config(), batch_size=16)", "16"),
        ("class Own(Config):\n    batch_size: int = 16\nconfig = dataclasses.dataclass(Own)()", "16"),
        ("config = Config()\nsetattr(config, 'batch_' + 'size', int('16'))", None),
        ("config = Config(int(os.environ.get('BS', '16')))", None),
        ("config = Config(batch_size=4 * 4)", "4 * 4"),
        ("config = Config(batch_size=4 * int('4'))", None),
    ],
)
def test_an_override_of_a_default_is_never_shown_as_the_default(
    script: Write, run: Run, made: str, literal: str | None
) -> None:
    profile = run(script(HEAD + made + "\n" + LOADER + TRAINING))
    assert shown(profile) == (16, literal)
    assert profile.batch.samples_per_iteration == 16


def test_a_setting_in_a_file_is_named_and_other_sizes_are_measured(
    script: Write, run: Run, tmp_path: Path
) -> None:
    settings = '{"model": {"width": 16},\n "train": {"batch_size": 16}}\n'
    (tmp_path / "config.json").write_text(settings)
    made = "config = Config(**json.loads((here / 'config.json').read_text())['train'])\n"
    path = script(HEAD + made + LOADER + TRAINING)
    before = path.read_text()
    profile = run(path, batch_points=2)
    assert shown(profile) == (16, None)
    assert sizes(profile) == [4, 16, 32]
    place = profile.setting
    assert place is not None
    assert (Path(place.file).name, place.line, place.key, place.text) == (
        "config.json",
        2,
        "train.batch_size",
        "16",
    )
    report = profile_report(analyse(profile)).batch_size
    assert (report.value, report.lives, report.knob) == (16, place, None)
    assert "config.json, line 2" in (report.reason or "")
    analysis = analyse(profile)
    assert [point.batch_size for point in profile_report(analysis).curve if point.measured] == [4, 16, 32]
    answer = estimate(analysis, Question(batch_size=24))
    assert (answer.applicable, answer.batch_size, answer.extrapolated) == (True, 24, False)
    assert answer.rewrite == "available"
    # Neither file was touched.
    assert (path.read_text(), (tmp_path / "config.json").read_text()) == (before, settings)


@pytest.mark.parametrize(("key", "from_file"), [("train", True), ("other", False)])
def test_a_file_goes_over_a_default_of_the_same_key(
    script: Write, run: Run, tmp_path: Path, key: str, from_file: bool
) -> None:
    (tmp_path / "config.yaml").write_text("train:\n  batch_size: 16\n")
    made = f"""
    import types
    config = types.SimpleNamespace({key}=types.SimpleNamespace())
    config.{key}.batch_size = 16
    (here / "config.yaml").read_text()
    loader = DataLoader(data, batch_size=config.{key}.batch_size)
    """
    profile = run(script(HEAD + textwrap.dedent(made) + TRAINING), batch_points=0)
    assert shown(profile) == (16, None if from_file else "16")
    assert profile.setting is not None
    assert ("config.yaml, line 2" in batch_place(profile).reason) is from_file


def test_a_literal_that_is_the_size_by_chance_gives_way_to_the_loader(
    script: Write, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"batch_size": 8}')
    made = "config = Config(**json.loads((here / 'config.json').read_text()))\n"
    profile = run(script(HEAD + made + LOADER + TRAINING), batch_points=1)
    assert shown(profile) == (8, None)
    assert sizes(profile) == [8, 16]
    assert "did not change the batch of the run" in profile.knobs.refusal
    assert "config.json" in batch_place(profile).reason


def test_without_a_literal_or_a_setting_the_loader_is_named(script: Write, run: Run) -> None:
    path = script(
        HEAD
        + "size = len('0123456789abcdef')\nloader = DataLoader(data, batch_sampler="
        + "BatchSampler(RandomSampler(data), size, drop_last=True))\n"
        + TRAINING
    )
    profile = run(path, batch_points=1)
    assert shown(profile) == (16, None)
    assert sizes(profile) == [16, 32]
    line = next(
        number for number, text in enumerate(path.read_text().splitlines(), 1) if text.startswith("loader")
    )
    assert batch_place(profile).reason == (
        f"The batch size 16 is set by the loader at train.py:{line}; no literal in the code holds it."
    )


def test_what_depends_on_the_size_elsewhere_follows_through_the_file(
    script: Write, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text("[train]\nbatch_size = 16\n")
    made = """
    import re
    size = int(re.search(r"batch_size = (.*)", (here / "config.toml").read_text())[1])
    loader = DataLoader(data, batch_size=size, drop_last=True)
    state = torch.zeros(size, 24)
    data.tensors = (data.tensors[0], data.tensors[1])
    """
    source = HEAD + textwrap.dedent(made) + TRAINING.replace("model(inputs)", "model(inputs + state)")
    profile = run(script(source), batch_points=1)
    assert shown(profile) == (16, None)
    assert sizes(profile) == [16, 32]
    assert not [note for note in profile.notes if "left out" in note]


def test_batches_made_by_hand_from_a_setting(script: Write, run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("width: 24\nbatch_size: 16\n")
    made = """
    default_batch_size = 8
    batch_size = default_batch_size
    for line in open(here / "config.yaml"):
        if line.startswith("batch_size"):
            batch_size = int(line.split(":")[1])
    """
    profile = run(script(HEAD + textwrap.dedent(made) + BY_HAND), batch_points=1)
    assert shown(profile) == (16, None)
    assert sizes(profile) == [16, 32]
    assert profile.setting is not None
    assert profile.setting.line == 2


def test_a_source_that_is_run_as_a_configuration_is_changed_there(
    script: Write, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("batch_size = 16\n")
    made = "batch_size = 8\nexec(open(here / 'own.py').read())\n"
    profile = run(script(HEAD + made + BY_HAND), batch_points=1)
    assert shown(profile) == (16, None)
    assert sizes(profile) == [16, 32]
    assert batch_place(profile).reason == "The batch size is read from own.py, line 1 (`batch_size: 16`)."


def test_a_constant_of_an_imported_module_is_no_option(script: Write, run: Run, tmp_path: Path) -> None:
    (tmp_path / "plots.py").write_text("batch_size = 16\npictures = [None] * batch_size\n")
    option = """
import argparse, plots
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
config = parser.parse_args()
"""
    profile = run(script(HEAD + option + LOADER + TRAINING))
    assert shown(profile) == (16, "16")
    knob = batch_place(profile).knob
    assert knob is not None
    assert Path(knob.span.file).name == "train.py"


def test_a_recurrent_network_has_its_batch_second(script: Write, run: Run) -> None:
    source = """
    import torch
    batch_size, layers = 6, 1
    model = torch.nn.LSTM(4, 8, layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(100_000):
        state = tuple(torch.zeros(layers, batch_size, 8) for _ in range(2))
        optimizer.zero_grad()
        model(torch.randn(9, batch_size, 4), state)[0].square().mean().backward()
        optimizer.step()

    def export(batch_size=1):
        return torch.zeros(9, batch_size, 4)
    """
    assert shown(run(script(source))) == (6, "6")


ACTING = """
batch_size = 2**5
actor, critic = torch.nn.Linear(24, 1), torch.nn.Linear(24, 1)
parameters = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
memory = torch.randn(1024, 24)

def update(size):
    states = memory[torch.randint(1024, (size,))]
    loss = (critic(states) - actor(states)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for move in range(100_000):
    action = actor(memory[move % 1024].unsqueeze(0)).item()
    update(batch_size)
"""


ARRAYS = """
import numpy as np, torch
batch_size = 16
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(24, 1)
    def forward(self, x):
        return self.layer(torch.from_numpy(x).float())
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    inputs = np.array([np.random.random(24) for _ in range(batch_size)])
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
"""


def test_arrays_that_a_model_is_given_show_the_batch(script: Write, run: Run) -> None:
    assert shown(run(script(ARRAYS))) == (16, "16")


ALL_NODES = """
import torch
features = 24
nodes = torch.randn(100, features).to_sparse()
weight = torch.nn.Parameter(torch.rand(features, 4))
class Graph(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = weight
    def forward(self, x):
        return torch.sparse.mm(x, self.weight)
model = Graph()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    optimizer.zero_grad()
    model(nodes).square().mean().backward()
    optimizer.step()
"""


def test_the_number_of_features_is_no_batch(script: Write, run: Run) -> None:
    assert shown(run(script(ALL_NODES))) == (None, None)


def test_a_model_that_acts_before_it_learns_shows_the_batch_that_it_learns_from(
    script: Write, run: Run
) -> None:
    profile = run(script(HEAD + ACTING), batch_points=1)
    assert shown(profile) == (32, "2**5")
    assert sizes(profile) == [32, 64]


def test_a_batch_that_is_flattened_is_shown_by_another_value(script: Write, run: Run) -> None:
    source = HEAD + "batch_size = 5\n" + BY_HAND.replace("(batch_size, 24)", "(batch_size * 7, 24)")
    path = script(source)
    # A multiple proves nothing.
    assert shown(run(path)) == (None, None)
    profile = run(path, batch_points=1)
    assert shown(profile) == (5, "5")
    assert sizes(profile) == [5, 10]


def test_a_number_in_the_loop_without_a_name(script: Write, run: Run) -> None:
    source = HEAD + BY_HAND.replace("torch.randn(batch_size, 24)", "torch.rand(16, 24)")
    profile = run(script(source), batch_points=1)
    assert shown(profile) == (16, "16")
    assert sizes(profile) == [16, 32]


def test_a_model_of_tensors_alone_shows_its_batch_by_its_labels(script: Write, run: Run) -> None:
    source = """
    import torch
    batch_size = 12
    points, classes = torch.randn(500, 6), torch.randint(0, 3, (500,))
    weight = torch.zeros(6, 3, requires_grad=True)
    while True:
        chosen = torch.randint(0, 500, (batch_size,))
        loss = torch.nn.functional.cross_entropy(points[chosen] @ weight, classes[chosen])
        weight.grad = None
        loss.backward()
        weight.data -= 0.1 * weight.grad
    """
    assert shown(run(script(source))) == (12, "12")


def test_batches_of_random_length_count_by_their_mean(script: Write, run: Run) -> None:
    made = """
class EachWithAProbability:
    def __init__(self, num_samples, sample_rate):
        self.num_samples, self.sample_rate = num_samples, sample_rate

    def __iter__(self):
        while True:
            yield (torch.rand(self.num_samples) < self.sample_rate).nonzero().flatten().tolist()

    def __len__(self):
        return int(1 / self.sample_rate)

config = Config(batch_size=16)
regular = DataLoader(data, batch_size=config.batch_size)
loader = DataLoader(data, batch_sampler=EachWithAProbability(len(data), 1 / len(regular)))
"""
    profile = run(script(HEAD + made + TRAINING))
    assert shown(profile) == (16, "16")
    assert profile.batch.samples_per_iteration == 16


def test_data_that_is_loaded_beforehand_has_no_say(script: Write, run: Run) -> None:
    source = HEAD + "whole, _ = next(iter(DataLoader(data, batch_size=4096)))\nbatch_size = 16\n"
    profile = run(script(source + BY_HAND.replace("torch.randn(batch_size, 24)", "whole[:batch_size]")))
    assert shown(profile) == (16, "16")


def test_gathered_gradients_count_every_batch(script: Write, run: Run) -> None:
    source = HEAD + "config = Config(batch_size=16)\n" + LOADER
    gathering = """
    model = torch.nn.Linear(24, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(10_000):
        for step, (inputs, targets) in enumerate(loader, 1):
            (model(inputs) - targets).square().mean().backward()
            if step % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """
    profile = run(script(source + textwrap.dedent(gathering)), batch_points=1)
    assert shown(profile) == (16, "16")
    assert (profile.batch.samples_per_iteration, profile.batch.micro_batches) == (64, 4)
    assert sizes(profile) == [16, 32]


def test_an_evaluation_between_steps_has_no_say(script: Write, run: Run) -> None:
    source = HEAD + "config = Config(batch_size=16)\n" + LOADER
    evaluating = """
    model = torch.nn.Linear(24, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in DataLoader(data, batch_size=8):
        model(inputs)
    for epoch in range(10_000):
        for inputs, targets in loader:
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    """
    profile = run(script(source + textwrap.dedent(evaluating)))
    assert shown(profile) == (16, "16")


BY_NAME = """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("batch", type=int)
batch_size = parser.parse_args().batch

class Language(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 8)
        self.head = torch.nn.Linear(8, 50)

    def forward(self, input_ids=None, labels=None, return_dict=True):
        rows = self.words(input_ids.flatten())
        return torch.nn.functional.cross_entropy(self.head(rows), labels.flatten())

model = Language()
tokens = torch.randint(0, 50, (batch_size, 12))

def loss_of():
    return model(return_dict=True, input_ids=tokens, labels=tokens)

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    loss = loss_of()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
"""The inputs have names, are made before the loop, and are flattened before the first module that is fed in order."""


def test_inputs_that_are_fed_by_name_show_the_batch(
    script: Write, run: Run, tmp_path: Path, starter: Starter
) -> None:
    path = script(BY_NAME)
    assert shown(run(path, "16")) == (16, '"batch"')
    request = CaptureRequest(path, ("16",), working_directory=tmp_path)
    assert shown(trace_shapes(request, None, progress=lambda _: None, starter=starter)) == (16, '"batch"')


def test_a_traced_script_follows_the_loader(script: Write, tmp_path: Path, starter: Starter) -> None:
    path = script(HEAD + "config = Config(int('16'))\n" + LOADER + TRAINING)
    request = CaptureRequest(path, working_directory=tmp_path)
    base = trace_shapes(request, None, progress=lambda _: None, starter=starter)
    assert shown(base) == (16, None)
    from skyline.predict.gpus import gpu_named
    from skyline.predict.shape_tracer import ScriptTracer, TracedSizes

    tracer = ScriptTracer(request, gpu_named("t4"), lambda _: None, starter=starter)
    traced = TracedSizes(tracer, base).at(32)
    assert traced is not None
    assert traced.batch_size == 32
