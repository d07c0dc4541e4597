"""Is a pruned network as fast as was predicted? ``prune`` at several ratios, predicted first, then pruned and measured.

The scripts are ``examples/image_classifier.py`` and loops around networks of kuangliu/pytorch-cifar on random images of
32 by 32. Each is profiled once and every change predicted. Then torch-pruning prunes the model in memory, by Skyline's
own rewrite, and all versions take turns with the unchanged script, which runs twice (the null). The mean over a gradual
schedule is computed from the predictions alone, also for ResNet-50 on GPUs that are not here. Needs torch-pruning in
the interpreter, and a folder of bare clones (``--mirror``) or a network.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from machine import Machine, warn_when_busy
from predicted_whatifs import MODELS, traced
from result_file import RESULTS, table, write
from whatifs import KEEPS_MEMORY, Row, WhatIfScript, measured, page, said

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.verification.change import change
from skyline.whatif.question import Choice, Question

REPOSITORY, COMMIT = "kuangliu/pytorch-cifar", "49b7aa97b0c12fe0d4054e670403a16b6b834ddd"
EXAMPLE = Path(__file__).parent.parent / "examples" / "image_classifier.py"
GPUS = ("v100", "a100")
"""ResNet-50 is predicted for these without running it, to compare with PruneTrain's figure."""
NETWORKS = {"resnet18": "ResNet18()", "mobilenetv2": "MobileNetV2()", "vgg11": "VGG('VGG11')"}
ASKED = ("0.3", "0.5", "0.3:16", "0.5:16")
CURVE = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7")
SCRIPT = """\
import torch
from models import *

batch_size = {batch}
torch.manual_seed(0)
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


def scripts(options: argparse.Namespace) -> Iterator[WhatIfScript]:
    """The example, and one file for each public network, in its folder."""
    if "image_classifier" in options.only:
        yield WhatIfScript(EXAMPLE, ("--epochs", "1000"), None)
    try:
        folder = checkout(REPOSITORY, COMMIT, options.scratch / "checkouts", options.mirror)
    except NotFetched as reason:
        print(reason, file=sys.stderr)
        return
    for name, network in NETWORKS.items():
        if name in options.only:
            path = folder / f"{name}.py"
            path.write_text(SCRIPT.format(batch=options.batch, network=network), encoding="utf-8")
            yield WhatIfScript(path, (), None)


def validate(subject: WhatIfScript, options: argparse.Namespace) -> tuple[list[Row], list[str], list[str]]:
    """The measured changes of one script, its curve, and what was said of a schedule."""
    with tempfile.TemporaryDirectory() as folder:
        profile = capture(subject.request(Path(folder)), progress=lambda _: None)
        analysis = analyse(profile)
        choices = [(Choice("prune", value),) for value in ASKED]
        changes = [
            (said(analysis, one), change(analysis, Question(choices=one), profile.arguments))
            for one in choices
        ]
        for words, _ in changes:
            print(
                f"  predicted {subject.name} {words.names[0]}: {words.ratio:.3f}", file=sys.stderr, flush=True
            )
        return measured(subject, Path(folder), changes, options.rounds), *curve(analysis, subject.name)


def curve(analysis: Analysis, name: str) -> tuple[list[str], list[str]]:
    """A row of predicted times by ratio, and the mean over the schedule for half of the channels."""
    answers = {value: estimate(analysis, Question(choices=(Choice("prune", value),))) for value in CURVE}
    start = analysis.baseline.iteration_ms.value
    row = [name, f"{start:.1f} ms", *(f"{one.iteration_ms.value / start:.2f}" for one in answers.values())]
    words = next(one for one in answers["0.5"].assumptions if "gradual schedule" in one)
    return row, [name, words]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=["image_classifier", *NETWORKS], metavar="SCRIPT")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16, help="images in a batch of the public networks")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[Row] = []
    curves: list[list[str]] = []
    schedules: list[list[str]] = []
    plain = (
        (MODELS / "resnet50.py").read_text(encoding="utf-8").replace("bfloat16)", "bfloat16, enabled=False)")
    )
    for gpu in GPUS:
        ratios, schedule = curve(traced(plain, gpu), f"ResNet-50, {gpu.upper()}")
        curves.append(ratios)
        schedules.append(schedule)
        print(f"  {ratios}\n  {schedule[1]}", file=sys.stderr, flush=True)
    for subject in scripts(options):
        try:
            found, ratios, schedule = validate(subject, options)
        except SkylineError as failed:
            print(f"{subject.name}: {failed}", file=sys.stderr)
            continue
        rows += found
        curves.append(ratios)
        schedules.append(schedule)
        body = (
            f"{options.rounds} rounds. Ratios are of iteration times to the unchanged script's.\n\n{page(rows)}\n\n"
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
