"""Compare answers of ``better_graph`` with scripts whose products are written in the other form by hand.

    python benchmarks/better_graph.py [--rounds 8] [--only heads]

Each script is profiled, and every prediction is made before anything else runs. Then both forms are timed in turns,
with the unchanged script twice (the null). Before that, both models compute the same input with the same weights in
double precision: their outputs must be equal up to rounding. Needs the extra ``graph``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from interleaved import HandTimed, TimedScript
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.turns import in_turns, trial
from skyline.trace.trial import Choices
from skyline.whatif.question import Choice, Question

_SAME = 1e-10
"""Largest difference between outputs, as a share of the largest one, in double precision."""
_SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
{layers}

    def forward(self, x):
{forward}


def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(1_000_000):
        loss = model(torch.randn({size})).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True, slots=True)
class Form:
    """The layers and the forward pass of a model, as lines of code."""

    layers: tuple[str, ...]
    forward: tuple[str, ...]

    def script(self, size: str) -> str:
        """The whole script."""
        layers, forward = (
            "\n".join(f"        {line}" for line in one) for one in (self.layers, self.forward)
        )
        return _SCRIPT.format(layers=layers, forward=forward, size=size)


@dataclass(frozen=True, slots=True)
class Case:
    """A model in two forms. ``joined`` lists the parameters that are concatenated, by the name of the new parameter."""

    name: str
    size: str
    plain: Form
    other: Form
    joined: Mapping[str, tuple[str, ...]]


def _attention(width: int) -> Case:
    separate = Form(
        tuple(f"self.{one} = nn.Linear({width}, {width})" for one in "qkv"),
        ("q = self.q(x)", "k = self.k(x)", "v = self.v(x)", "return torch.sigmoid(q * k) * v"),
    )
    together = Form(
        (f"self.qkv = nn.Linear({width}, {3 * width})",),
        ("q, k, v = self.qkv(x).chunk(3, dim=-1)", "return torch.sigmoid(q * k) * v"),
    )
    joined = {f"qkv.{kind}": tuple(f"{one}.{kind}" for one in "qkv") for kind in ("weight", "bias")}
    return Case(f"heads {width}", f"16, 64, {width}", separate, together, joined)


_WEIGHTS = tuple(f"self.{one} = nn.Parameter(torch.randn(512, 512) / 512**0.5)" for one in "ab")
_TALL = (
    "self.a = nn.Parameter(torch.randn(128, 2048) / 128**0.5)",
    "self.b = nn.Parameter(torch.randn(2048, 128) / 2048**0.5)",
)
CASES = (
    _attention(64),
    _attention(256),
    Case(
        "weights added", "2048, 512",
        Form(_WEIGHTS, ("return x @ self.a + x @ self.b",)), Form(_WEIGHTS, ("return x @ (self.a + self.b)",)), {},
    ),
    Case(
        "weights multiplied", "2048, 128",
        Form(_TALL, ("return (x @ self.a) @ self.b",)), Form(_TALL, ("return x @ (self.a @ self.b)",)), {},
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One case. Ratios are relative to an iteration of the unchanged script."""

    case: str
    iteration_ms: float
    predicted: float
    low: float
    high: float
    measured: float
    null: float
    difference: float

    @property
    def error(self) -> float:
        """The error of the predicted iteration time of the other form."""
        return self.predicted / self.measured - 1

    @property
    def holds(self) -> bool:
        """True if the measurement is inside the range."""
        return self.low <= self.measured <= self.high


def model(script: str) -> Any:
    """The model of a script, in double precision."""
    names: dict[str, Any] = {"__name__": "model"}
    exec(compile(script, "model", "exec"), names)
    return names["Net"]().double()


def difference(case: Case) -> float:
    """The largest difference between the outputs of both forms with the same weights."""
    plain, other = model(case.plain.script(case.size)), model(case.other.script(case.size))
    state = plain.state_dict()
    other.load_state_dict(
        {
            name: torch.cat([state[one] for one in case.joined[name]]) if name in case.joined else state[name]
            for name in other.state_dict()
        }
    )
    x = torch.randn(*map(int, case.size.split(",")), dtype=torch.float64)
    one, two = plain(x), other(x)
    apart = float((one - two).abs().max() / one.abs().max())
    if apart > _SAME:
        raise SystemExit(f"{case.name}: outputs differ by {apart:.2g}")
    return apart


def measured(case: Case, rounds: int) -> Row:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scripts: list[TimedScript] = []
        for name, form in (("plain", case.plain), ("other", case.other)):
            path = folder / name / "train.py"
            path.parent.mkdir()
            path.write_text(form.script(case.size), encoding="utf-8")
            scripts.append(TimedScript(path))
        request = CaptureRequest(scripts[0].script, (), working_directory=folder)
        analysis = analyse(capture(request, progress=lambda _: None))
        answer = estimate(analysis, Question(choices=(Choice("better_graph"),)))
        now = analysis.baseline.iteration_ms.value
        # If no better form is found, the prediction is that nothing changes.
        said = answer.iteration_ms if answer.applicable else analysis.baseline.iteration_ms
        apart = difference(case)
        one, again, other = (
            stack.enter_context(HandTimed(timed)) for timed in (scripts[0], scripts[0], scripts[1])
        )
        done = in_turns(one, [other], again, rounds=rounds)
        trials = trial(Choices(), done, 0)
        return Row(
            case.name,
            statistics.median(turn.base_ms for turn in done),
            said.value / now,
            said.low / now,
            said.high / now,
            statistics.median(trials.ratios),
            statistics.median(trials.null),
            apart,
        )


def page(rows: list[Row]) -> str:
    head = ["case", "iteration", "predicted", "range", "measured", "error", "null", "outputs differ by"]
    body = [
        [
            row.case,
            f"{row.iteration_ms:.2f} ms",
            f"{row.predicted:.2f}",
            f"{row.low:.2f} to {row.high:.2f}",
            f"{row.measured:.2f}",
            f"{row.error:+.0%}",
            f"{row.null:.2f}",
            f"{row.difference:.1g}",
        ]
        for row in rows
    ]
    return (
        f"{table(head, body)}\n\n{sum(row.holds for row in rows)} of {len(rows)} measured times are in the "
        "range."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="*", help="these cases alone")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[Row] = []
    for case in CASES:
        if not options.only or case.name in options.only:
            rows.append(measured(case, options.rounds))
            print(page(rows), file=sys.stderr)
    figures = [asdict(row) | {"error": row.error, "holds": row.holds} for row in rows]
    title = "Products in another form"
    print(write("better_graph", title, machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
