"""Checks if pruned networks are as fast as predicted: ``prune`` at several ratios, predicted first and then measured.

Training loops of networks of ``examples/image_classifier.py`` and of kuangliu/pytorch-cifar, on random images of 32 by
32, are profiled, and every change is predicted. Then torch-pruning prunes copies of the network, with the call that
Skyline's rewrite writes. All copies take turns in one process with the unchanged network and a second copy of it (the
null). The measure is processor time on one thread, so that the page can be made on a busy machine; the profile is of
the same loop. The mean over a gradual schedule is computed only from the predictions, also for ResNet-50 on absent
GPUs. Needs torch-pruning, and a folder of bare clones (``--mirror``) or a network connection.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from machine import Machine, warn_when_busy
from predicted_whatifs import MODELS, traced
from result_file import RESULTS, table, write
from whatifs import Row, page, said

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.interval import bootstrap
from skyline.verification.change import change
from skyline.whatif.catalogue.models.pruned_sizes import Cut
from skyline.whatif.question import Choice, Question

REPOSITORY, COMMIT = "kuangliu/pytorch-cifar", "49b7aa97b0c12fe0d4054e670403a16b6b834ddd"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NETWORKS = {
    "small_resnet": ("from image_classifier import SmallResNet", "SmallResNet()"),
    "resnet18": ("from models import *", "ResNet18()"),
    "mobilenetv2": ("from models import *", "MobileNetV2()"),
    "vgg11": ("from models import *", "VGG('VGG11')"),
}
GPUS = ("v100", "a100")
"""The GPUs that ResNet-50 is predicted for without a run, to compare with PruneTrain's figure."""
ASKED = ("0.3", "0.5", "0.3:16", "0.5:16")
CURVE = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7")
SCRIPT = """\
import torch
{imported}

batch_size = {batch}
torch.manual_seed(0)
torch.set_num_threads(1)
net = {network}
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
for step in range(100_000):
    inputs, targets = torch.randn(batch_size, 3, 32, 32), torch.randint(10, (batch_size,))
    optimizer.zero_grad()
    loss = criterion(net(inputs), targets)
    loss.backward()
    optimizer.step()
"""
TURNS = """\
import copy, json, sys, time
import torch, torch_pruning
{imported}

torch.manual_seed(0)
torch.set_num_threads(1)
first = {network}
nets = [copy.deepcopy(first) for _ in range({changes} + 2)]
for net, (ratio, multiple) in zip(nets[2:], {cuts}):
    last = [each for each in net.modules() if isinstance(each, torch.nn.Linear)][-1]
    torch_pruning.pruner.BasePruner(
        net, (torch.zeros(1, 3, 32, 32),), torch_pruning.importance.MagnitudeImportance(),
        pruning_ratio=ratio, round_to=multiple, ignored_layers=[last],
    ).step()
    net.train()
steps = [torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4) for net in nets]
criterion = torch.nn.CrossEntropyLoss()

def one(net, optimizer):
    began = time.process_time()
    inputs, targets = torch.randn({batch}, 3, 32, 32), torch.randint(10, ({batch},))
    optimizer.zero_grad()
    criterion(net(inputs), targets).backward()
    optimizer.step()
    return time.process_time() - began

rounds = [[one(*each) for each in zip(nets, steps)] for _ in range({rounds} + 3)]
json.dump(rounds[3:], sys.stdout)
"""


def folders(options: argparse.Namespace) -> dict[str, Path]:
    """The folder that each network is imported from."""
    found = {"small_resnet": EXAMPLES}
    try:
        public = checkout(REPOSITORY, COMMIT, options.scratch / "checkouts", options.mirror)
        found |= dict.fromkeys(NETWORKS.keys() - found, public)
    except NotFetched as reason:
        print(reason, file=sys.stderr)
    return {name: found[name] for name in NETWORKS if name in found and name in options.only}


def validate(name: str, folder: Path, options: argparse.Namespace) -> tuple[list[Row], list[str], list[str]]:
    """The measured changes of one network, its curve, and the text about a schedule."""
    imported, network = NETWORKS[name]
    with tempfile.TemporaryDirectory() as place:
        script = Path(place, f"{name}.py")
        path = f"import sys\nsys.path.insert(0, {str(folder)!r})\n{imported}"
        script.write_text(
            SCRIPT.format(imported=path, batch=options.batch, network=network), encoding="utf-8"
        )
        request = CaptureRequest(script, working_directory=Path(place), timeout_s=600.0, batch_points=0)
        analysis = analyse(capture(request, progress=lambda _: None))
        words = [said(analysis, (Choice("prune", value),)) for value in ASKED]
        for one in words:
            change(analysis, Question(choices=(Choice.parse(one.names[0]),)), ())
            print(f"  predicted {name} {one.names[0]}: {one.ratio:.3f}", file=sys.stderr, flush=True)
        cuts = [(Cut.parse(value).ratio, Cut.parse(value).multiple) for value in ASKED]
        text = TURNS.format(
            imported=path,
            batch=options.batch,
            network=network,
            rounds=options.rounds,
            changes=len(cuts),
            cuts=cuts,
        )
        told = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    rounds = json.loads(told)
    null = bootstrap([again / base for base, again, *_ in rounds])
    rows = [
        Row(name, one, bootstrap([turn[number] / turn[0] for turn in rounds]), null, None)
        for number, one in enumerate(words, 2)
    ]
    for row in rows:
        print(f"  measured {name} {row.said.names[0]}: {row.measured}", file=sys.stderr, flush=True)
    return rows, *curve(analysis, name)


def curve(analysis: Analysis, name: str) -> tuple[list[str], list[str]]:
    """A row of predicted times by ratio, and the mean over the schedule for half of the channels."""
    answers = {value: estimate(analysis, Question(choices=(Choice("prune", value),))) for value in CURVE}
    start = analysis.baseline.iteration_ms.value
    row = [name, f"{start:.1f} ms", *(f"{one.iteration_ms.value / start:.2f}" for one in answers.values())]
    words = next(one for one in answers["0.5"].assumptions if "gradual schedule" in one)
    return row, [name, words]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16, help="images in a batch")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--without-gpus", action="store_true", help="leave ResNet-50 out")
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[Row] = []
    curves: list[list[str]] = []
    schedules: list[list[str]] = []
    plain = (
        (MODELS / "resnet50.py").read_text(encoding="utf-8").replace("bfloat16)", "bfloat16, enabled=False)")
    )
    for gpu in () if options.without_gpus else GPUS:
        ratios, schedule = curve(traced(plain, gpu), f"ResNet-50, {gpu.upper()}")
        curves.append(ratios)
        schedules.append(schedule)
        print(f"  {ratios}\n  {schedule[1]}", file=sys.stderr, flush=True)
    for name, folder in folders(options).items():
        try:
            found, ratios, schedule = validate(name, folder, options)
        except (SkylineError, subprocess.CalledProcessError) as failed:
            print(f"{name}: {failed}", file=sys.stderr)
            continue
        rows += found
        curves.append(ratios)
        schedules.append(schedule)
        body = (
            f"{options.rounds} rounds of one step each, batches of {options.batch}, one thread. "
            f"Measured: processor time relative to the unchanged network.\n\n{page(rows)}\n\n"
            f"## Predicted, by ratio\n\n{table(['script', 'now', *CURVE], curves)}\n\n"
            f"## A gradual schedule to half of the channels\n\n{table(['script', 'predicted'], schedules)}"
        )
        figures = {
            "rows": [asdict(row) | {"valid": row.valid, "error": row.error} for row in rows],
            "curve": curves,
        }
        print(write("pruning", "Pruned networks", machine, body, figures, results=options.results))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
