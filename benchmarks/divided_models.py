"""Compare predictions of ``serialize`` and ``parallel_branches`` with models that are divided by hand.

    python benchmarks/divided_models.py [--rounds 8] [--only images]

Each script of ``divided_scripts`` is profiled, and its prediction is made before anything else runs. Then the script
divided by hand and the script itself are timed in turns, the script twice (the null). If the answer is that nothing is
gained, a plain division is still timed: the whole trunk in eight parts, or the branches on as many threads as there
are cores. Handing a call to a thread and back is timed separately.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from interleaved import HandTimed, TimedScript
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.turns import in_turns, trial
from skyline.trace.trial import Choices
from skyline.whatif.question import Choice, Estimate, Question

HERE = Path(__file__).resolve().parent
_GROUP = re.compile(r"Net\.features\.(\d+)(?: to Net\.features\.(\d+))? in sub-batches of (\d+)")
_CORES = os.cpu_count() or 1
_THREADS = '''
from concurrent.futures import ThreadPoolExecutor

workers = ThreadPoolExecutor({count}, initializer=torch.set_num_threads, initargs=({threads},))


class Apart(torch.autograd.Function):
    """Branches on separate threads, forward and backward."""

    @staticmethod
    def forward(ctx, branches, x):
        def run(branch):
            with torch.enable_grad():
                own = x.detach().requires_grad_()
                return own, branch(own)

        ctx.kept = list(workers.map(run, branches))
        return tuple(out.detach() for _, out in ctx.kept)

    @staticmethod
    def backward(ctx, *gradients):
        def run(pair):
            (own, out), gradient = pair
            torch.autograd.backward(out, gradient)
            return own.grad

        return None, sum(workers.map(run, zip(ctx.kept, gradients)))

'''
_ONE_BY_ONE = {
    "towers": "        fine = self.fine(x)\n        coarse = self.coarse(x)\n",
    "experts": "        found = [one(x) for one in self.experts]\n",
}
_AT_ONCE = {
    "towers": "        fine, coarse = Apart.apply([self.fine, self.coarse], x)\n",
    "experts": "        found = list(Apart.apply(list(self.experts), x))\n",
}
CASES = {
    "images": "serialize", "rows": "serialize", "towers": "parallel_branches", "experts": "parallel_branches",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A script with the ratio of its divided iteration to its own. The prediction is 1 if nothing is gained."""

    script: str
    whatif: str
    said: str
    iteration_ms: float
    predicted: float
    low: float
    high: float
    measured: float
    null: float

    @property
    def error(self) -> float:
        """The error of the predicted iteration time."""
        return self.predicted / self.measured - 1


def in_parts(text: str, answer: Estimate) -> str:
    """The script with its trunk computed in parts by group. Without groups, the whole trunk in eight parts."""
    groups = [
        (int(first), int(last or first) + 1, size)
        for first, last, size in _GROUP.findall(answer.assumptions[0] if answer.applicable else "")
    ]
    lines: list[str] = []
    place = 0
    for begin, end, size in groups:
        if begin > place:
            lines.append(f"x = self.features[{place}:{begin}](x)")
        lines.append(f"x = torch.cat([self.features[{begin}:{end}](part) for part in x.split({size})])")
        place = end
    if groups:
        lines.append(f"x = self.features[{place}:](x)")
    else:
        lines.append("x = torch.cat([self.features(part) for part in x.chunk(8)])")
    indent = "\n        "
    return text.replace("x = self.features(x)", indent.join(lines))


def on_threads(name: str, text: str, answer: Estimate) -> str:
    """The script with its branches on separate threads."""
    count = int(answer.value) if answer.applicable else _CORES
    helper = _THREADS.format(count=count, threads=max(1, _CORES // count))
    divided = text.replace(_ONE_BY_ONE[name], _AT_ONCE[name])
    assert divided != text
    return divided.replace("\n\nclass Net", f"\n{helper}\nclass Net", 1)


def measured(name: str, rounds: int) -> Row:
    script, whatif = HERE / "divided_scripts" / f"{name}.py", CASES[name]
    text = script.read_text(encoding="utf-8")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        request = CaptureRequest(script, (), working_directory=folder)
        analysis = analyse(capture(request, progress=lambda _: None))
        answer = estimate(analysis, Question(choices=(Choice(whatif),)))
        now = analysis.baseline.iteration_ms.value
        said = answer.reason or answer.assumptions[0]
        print(f"{name}: {said}", file=sys.stderr)
        divided = in_parts(text, answer) if whatif == "serialize" else on_threads(name, text, answer)
        paths = [folder / place / script.name for place in ("plain", "divided")]
        for path, content in zip(paths, (text, divided), strict=True):
            path.parent.mkdir()
            path.write_text(content, encoding="utf-8")
        plain, other = map(TimedScript, paths)
        one, again, changed = (stack.enter_context(HandTimed(timed)) for timed in (plain, plain, other))
        done = in_turns(one, [changed], again, rounds=rounds)
        found = trial(Choices(), done, 0)
        ends = answer.iteration_ms if answer.applicable else analysis.baseline.iteration_ms
        return Row(
            name, whatif, said, statistics.median(turn.base_ms for turn in done),
            ends.value / now, ends.low / now, ends.high / now,
            statistics.median(found.ratios), statistics.median(found.null),
        )  # fmt: skip


def hand_over_us(times: int = 2000) -> tuple[float, float, float, float]:
    """The time in µs to pass a call to a waiting thread and to see its end: median, 10th and 90th percentile.

    The last value is the mean processor time of both threads, which Python and the system use for it.
    """
    took: list[float] = []
    with ThreadPoolExecutor(1) as workers:
        workers.submit(int).result()
        computed = time.process_time()
        for _ in range(times):
            began = time.perf_counter()
            workers.submit(int).result()
            took.append(1e6 * (time.perf_counter() - began))
        computed = time.process_time() - computed
    tenths = statistics.quantiles(took, n=10)
    return statistics.median(took), tenths[0], tenths[-1], 1e6 * computed / times


def page(rows: list[Row], hand_over: tuple[float, float, float, float]) -> str:
    head = ["script", "what-if", "answer", "iteration", "predicted", "range", "measured", "error", "null"]
    body = [
        [
            row.script,
            row.whatif,
            row.said,
            f"{row.iteration_ms:.1f} ms",
            f"{row.predicted:.2f}",
            f"{row.low:.2f} to {row.high:.2f}",
            f"{row.measured:.2f}",
            f"{row.error:+.0%}",
            f"{row.null:.2f}",
        ]
        for row in rows
    ]
    median, low, high, computed = hand_over
    return (
        f"{table(head, body)}\n\nPredicted and measured are the time of the divided iteration over the "
        "script's own. Predicted 1 is the answer that nothing is gained. The null is the script over itself "
        f"in a second process.\n\nA call through a waiting thread takes {median:.0f} µs longer than a direct "
        f"call (80 % of the calls: {low:.0f} to {high:.0f} µs). Both threads use {computed:.0f} µs of "
        "processor time for it."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="*", help="these scripts alone")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    hand_over = hand_over_us()
    rows = [measured(name, options.rounds) for name in CASES if not options.only or name in options.only]
    figures = {
        "rows": [asdict(row) | {"error": row.error} for row in rows],
        "hand_over_us": dict(zip(("median", "low", "high", "computed"), hand_over, strict=True)),
    }
    title = "Models that are divided: sub-batches in a cache, branches on cores"
    print(write("divided_models", title, machine, page(rows, hand_over), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
