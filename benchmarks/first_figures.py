"""Coverage of first figures: how often the range of the first iteration time contains the final time.

Scripts of this repository and of the corpus are profiled as by ``skyline profile``, each in its own process. Each
profile gives the first iteration time with its range, and the final time. Two ranges are computed from the same first
iterations. *Statistics only* is the range of their median. *With drift* is the range that Skyline shows, which also
includes how much later iterations differ (``skyline/interval.py``).

The constant was set on the development scripts and not on the others. Profiles end with ``--budget``, without trials,
because the turns of trials are spread over more time and are not the subject here.

``--keep FILE`` appends each profile to a file of JSON lines. A later run measures the missing profiles and writes the
page of all. Other programs may run, as they do on real machines, and the load is stated for each profile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import Machine
from result_file import RESULTS, table, write
from waiting import Subject, of_corpus

from skyline.interval import Interval, interval_of_first, interval_of_series, median

HERE = Path(__file__).resolve().parent
OWN = {
    "image_classifier": "../examples/image_classifier.py",
    "recommender": "../examples/recommender.py",
    "small_gpt": "../examples/small_gpt.py",
    "experts": "divided_scripts/experts.py",
    "images": "divided_scripts/images.py",
    "rows": "divided_scripts/rows.py",
    "towers": "divided_scripts/towers.py",
    "perceptron": "fused_scripts/perceptron.py",
    "recurrent": "fused_scripts/recurrent.py",
    "blob": "loss_scripts/blob_convnet.py",
    "markov": "loss_scripts/markov_transformer.py",
    "ratings": "loss_scripts/rating_factors.py",
    "teacher": "loss_scripts/teacher_mlp.py",
    "wave": "loss_scripts/wave_regression.py",
    "classes": "softmax_scripts/classes.py",
    "words": "softmax_scripts/words.py",
}
"""Scripts of this repository."""
DEVELOPMENT = (
    *(
        "image_classifier",
        "small_gpt",
        "recommender",
        "words",
        "blob",
        "markov",
        "experts",
        "towers",
        "images",
    ),
    *(
        "recurrent",
        "nanogpt",
        "word_lstm",
        "vae",
        "mnist",
        "truncated_rnn",
        "residual_network",
        "gan",
        "wgan_gp",
    ),
    *("bert", "seq2seq", "unet", "word_transformer"),
)
"""Scripts on which the constant was set."""
OTHERS = (
    *(
        "infogan",
        "adversarial_autoencoder",
        "pytorch_cifar",
        "super_resolution",
        "imagenet",
        "dcgan",
        "mingpt_adder",
    ),
    *(
        "tiny_diffusion",
        "adding_problem",
        "copy_memory",
        "siamese",
        "mnist_rnn",
        "forward_forward",
        "gat",
        "bigram",
    ),
    *(
        "bidirectional_rnn",
        "perceptron",
        "rows",
        "ratings",
        "teacher",
        "wave",
        "time_sequence",
        "makemore",
        "classes",
    ),
)
"""Scripts on which the constant was not set."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Iterations of one profile in ms, at first and at the end, and the load average at its start and its end."""

    name: str
    first_ms: tuple[float, ...]
    final_ms: float
    iterations: int
    load: tuple[float, float]

    @property
    def before(self) -> Interval:
        """The first iteration time with the range of statistics only."""
        return interval_of_series(self.first_ms)

    @property
    def after(self) -> Interval:
        """The first iteration time with the range that Skyline shows."""
        return interval_of_first(self.first_ms)


def profiled(subject: Subject, budget_s: float) -> dict[str, Any]:
    """Profile a script in its own process: the iterations of the first figures, and of the whole profile."""
    from skyline.capture.request import CaptureRequest
    from skyline.capture.session import capture
    from skyline.capture.warm_pool import WarmPool
    from skyline.trace.profile import Profile

    first: list[Profile] = []
    request = CaptureRequest(
        script=Path(subject.script), arguments=subject.arguments, working_directory=Path(subject.folder),
        variables=subject.variables, interpreter=subject.interpreter, budget_s=budget_s, batch_points=0, trials=False,
    )  # fmt: skip
    pool, load = WarmPool(), os.getloadavg()[0]
    try:
        last = capture(request, progress=lambda _: None, on_partial=first.append, starter=pool.start)
    finally:
        pool.close()
    return {
        "name": subject.name,
        "first_ms": first[0].times.steps_ms,
        "final_ms": last.iteration_ms.value,
        "iterations": len(last.times.steps_ms),
        "load": (load, os.getloadavg()[0]),
    }


def measured(subject: Subject, budget_s: float, limit_s: float) -> Kept | None:
    """One profile of a script. None if there is none, with the reason on stderr."""
    command = [sys.executable, __file__, "--measure", json.dumps(asdict(subject)), "--budget", str(budget_s)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=True
        )
    except subprocess.TimeoutExpired:
        print(f"{subject.name}: not done after {limit_s:.0f} s", file=sys.stderr)
        return None
    except subprocess.CalledProcessError as error:
        print(f"{subject.name}: {error.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
        return None
    return kept(json.loads(done.stdout.splitlines()[-1]))


def kept(told: dict[str, Any]) -> Kept:
    """A profile from a line of JSON."""
    told["first_ms"], told["load"] = tuple(told["first_ms"]), tuple(told["load"])
    return Kept(**told)


def own(names: Sequence[str]) -> Iterator[Subject]:
    """Scripts of this repository, on one thread as in the corpus."""
    for name in names:
        if name in OWN:
            script = (HERE / OWN[name]).resolve()
            yield Subject(name, str(script), folder=str(script.parent), variables=(("OMP_NUM_THREADS", "1"),))


def page(profiles: Sequence[Kept]) -> str:
    """Coverage and width of the ranges, for both sets; then each profile."""
    head = ["scripts", "profiles", "range", "contains the final figure", "half width, median", "widest"]
    rows: list[list[str]] = []
    for title, names in (("development", DEVELOPMENT), ("others", OTHERS)):
        found = [one for one in profiles if one.name in names]
        if not found:
            continue
        scripts = f"{title}: {len({one.name for one in found})}"
        for words, ranges in (
            ("statistics only", [one.before for one in found]),
            ("with drift", [one.after for one in found]),
        ):
            inside = sum(
                range_.low <= one.final_ms <= range_.high for one, range_ in zip(found, ranges, strict=True)
            )
            widths = [range_.half_width / range_.value for range_ in ranges]
            share = f"{inside} ({inside / len(found):.0%})"
            rows.append(
                [scripts, str(len(found)), words, share, f"±{median(widths):.1%}", f"±{max(widths):.0%}"]
            )
    each = [
        [
            one.name,
            str(len(one.first_ms)),
            *(f"{value:.1f}" for value in (one.after.value, one.before.low, one.before.high)),
            *(f"{value:.1f}" for value in (one.after.low, one.after.high, one.final_ms)),
            f"{one.final_ms / one.after.value:.2f}",
            f"{one.load[0]:.1f}",
        ]
        for one in sorted(profiles, key=lambda one: (one.name in OTHERS, one.name))
    ]
    columns = ["script", "first iterations", "first, ms", "low", "high", "low with drift", "high with drift"]
    columns += ["final, ms", "final over first", "load average"]
    return f"{table(head, rows)}\n\n## Profiles\n\n{table(columns, each)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument(
        "--interpreter",
        default=sys.executable,
        help="Python that runs the public scripts (default: this one)",
    )
    parser.add_argument("--only", nargs="*", default=(*DEVELOPMENT, *OTHERS), help="scripts by name")
    parser.add_argument("--rounds", type=int, default=3, help="profiles of each script")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds after the first figures")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one profile")
    parser.add_argument("--keep", type=Path, help="file of JSON lines to continue")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    if options.measure is not None:
        given = json.loads(options.measure)
        given["arguments"] = tuple(given["arguments"])
        given["variables"] = tuple(map(tuple, given["variables"]))
        print(json.dumps(profiled(Subject(**given), options.budget)))
        return 0
    machine = Machine.here()
    profiles: list[Kept] = []
    if options.keep is not None and options.keep.exists():
        profiles = [kept(json.loads(line)) for line in options.keep.read_text().splitlines()]
    missing = {name: options.rounds - sum(one.name == name for one in profiles) for name in options.only}
    wanted = [name for name, count in missing.items() if count > 0]
    found = list(own(wanted))
    if len(found) < len(wanted):
        found += of_corpus(options.scratch.resolve(), options.mirror, wanted, options.interpreter)
    for number in range(options.rounds):
        for subject in found:
            one = measured(subject, options.budget, options.limit) if number < missing[subject.name] else None
            if one is None:
                continue
            profiles.append(one)
            print(f"{number} {one}", file=sys.stderr, flush=True)
            if options.keep is not None:
                with options.keep.open("a") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
    figures = [asdict(one) for one in profiles]
    text = write("first_figures", "First figures", machine, page(profiles), figures, results=options.results)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
