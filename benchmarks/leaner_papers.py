"""Headline cases of papers on leaner models as curves of Skyline's predictions, next to the figures of the papers.

    python benchmarks/leaner_papers.py [--only prune_train hfta] [--without-runs]

Curves on GPUs are predicted from shapes, and nothing runs on a GPU. Two curves need a profile of a run on this machine:
the time of mini-batch serialization, and the lookups of the divided embeddings. ``--without-runs`` leaves them out. No
constant is fitted to a paper. Curves of an earlier run stay on the page unless they are drawn again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from machine import Machine
from predicted_whatifs import MODELS, traced
from result_file import RESULTS, table, write
from serialized_traffic import layers_of, moved

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.predict.checkpoint_interval import best_interval_s, lost_share
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.trace.tensor_values import hot_at
from skyline.units import format_share
from skyline.whatif.question import Choice, Estimate, Question

NAME = "leaner_papers"
HERE = Path(__file__).resolve().parent
_MIB = 1 << 20
_SETTLE_S = 60.0
"""Time for counting lookups, in s, which is enough even while other programs run."""
_RATIOS = ("0.1", "0.3", "0.5", "0.6", "0.7")
_MEAN = re.compile(r"mean iteration takes .*?, ([\d.]+) % of now")
_TILES = re.compile(
    r"fill ([\d.]+) % of their tiles, now ([\d.]+) %; .* ([\d.]+) % of the .*?, now ([\d.]+) %"
)
_GROUP_NORM = (
    ("nn.BatchNorm2d(", "nn.GroupNorm(32, "),
    ('torch.autocast("cuda", torch.bfloat16)', 'torch.autocast("cuda", torch.bfloat16, enabled=False)'),
    ("batch_size = 64", "torch.set_default_dtype(torch.bfloat16)\nbatch_size = 32"),
)
"""ResNet-50 with a normalization that allows sub-batches, entirely in 16 bits."""
_ON_GPU = (
    ('device = "cuda" if torch.cuda.is_available() else "cpu"', 'device = "cuda"'),
    ("model = Recommender().to(device)", "model = Recommender().to(device)\nmodel.tables.to('cpu')"),
    ("table(categories[:, place])", "table(categories[:, place]).to(device)"),
    ("dense.to(device), categories.to(device), labels", "dense.to(device), categories, labels"),
)
"""The tables of the recommender on the host, as in the baselines of FAE."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Predictions over one value. ``published`` is the paper's statement, ``differs`` the reason for a difference."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    published: str
    differs: str


def answers(analysis: Analysis, whatif: str, values: Sequence[str]) -> list[Estimate]:
    """The answer for each value."""
    return [estimate(analysis, Question(choices=(Choice(whatif, value),))) for value in values]


def ratio(analysis: Analysis, answer: Estimate) -> str:
    """The iteration over the unchanged one, with its range."""
    if not answer.applicable:
        return answer.reason or "does not apply"
    now = analysis.baseline.iteration_ms.value
    low, high = answer.iteration_ms.low / now, answer.iteration_ms.high / now
    return f"{answer.iteration_ms.value / now:.2f} [{low:.2f}, {high:.2f}]"


def speed(answer: Estimate) -> str:
    """Samples per second over those of the unchanged script."""
    return f"{answer.speedup:.2f}x" if answer.applicable else (answer.reason or "does not apply")


def found(pattern: re.Pattern[str], answer: Estimate) -> tuple[str, ...]:
    """The groups of a pattern in the assumptions of an answer. Dashes if it does not match."""
    matches = (pattern.search(one) for one in answer.assumptions)
    match = next((one for one in matches if one), None)
    return match.groups() if match else ("–",) * pattern.groups


def resnet50() -> str:
    """ResNet-50 in float32."""
    return (
        (MODELS / "resnet50.py").read_text(encoding="utf-8").replace("bfloat16)", "bfloat16, enabled=False)")
    )


def prune_train() -> Curve:
    analysis = traced(resnet50(), "v100")
    rows = [
        (value, ratio(analysis, one), f"{found(_MEAN, one)[0]} %")
        for value, one in zip(_RATIOS, answers(analysis, "prune", _RATIOS), strict=True)
    ]
    return Curve(
        "prune_train",
        "PruneTrain: ResNet-50 pruned gradually, V100, float32, batch 64",
        ("`prune`", "iteration of the last model", "mean iteration of the training"),
        tuple(rows),
        "39 % less time for the whole training of ResNet-50, 40 % less arithmetic",
        "In the paper, regularization chooses the channels layer by layer and removes most of them early. "
        "Its batch grows into the free memory, and its GPUs exchange fewer bytes. Our curve has one ratio "
        "for all layers, six equal intervals, and one GPU with the same batch. The accuracy limits the "
        "ratio, and is not predicted.",
    )


def flex_sa() -> Curve:
    analysis = traced((MODELS / "resnet50.py").read_text(encoding="utf-8"), "a100")
    rows = []
    for value in _RATIOS:
        plain, whole = answers(analysis, "prune", (value, f"{value}:64"))
        tiles, tiles_now, busy, busy_now = found(_TILES, plain)
        rounded = found(_TILES, whole)
        rows.append(
            (
                value, f"{tiles} %", f"{busy} %", f"{rounded[0]} %", f"{rounded[2]} %", f"{tiles_now} and {busy_now} %",
                ratio(analysis, plain), ratio(analysis, whole),
            )
        )  # fmt: skip
    return Curve(
        "flex_sa",
        "FlexSA: tiles and waves of pruned ResNet-50, A100, bfloat16, batch 64",
        (
            *("`prune`", "tiles", "waves", "tiles, multiples of 64", "waves, multiples of 64"),
            *("now", "iteration", "iteration, multiples of 64"),
        ),
        tuple(rows),
        "a systolic array that can be divided has 37 % higher utilization than one large array, in the "
        "training of pruned networks",
        "The paper simulates an accelerator with one large systolic array. A GPU has many multiprocessors "
        "and small tiles, and its losses are different. Rounding changes the number of channels, and with "
        "it the arithmetic.",
    )


def hfta() -> Curve:
    text = (HERE.parent / "examples" / "image_classifier.py").read_text(encoding="utf-8")
    jobs = ("2", "4", "8", "16", "32")
    columns = {gpu: traced(text, gpu) for gpu in ("v100", "a100")}
    told = {gpu: answers(one, "fuse_jobs", jobs) for gpu, one in columns.items()}
    rows = [(count, *(speed(told[gpu][place]) for gpu in columns)) for place, count in enumerate(jobs)]
    return Curve(
        "hfta",
        "HFTA: the small residual network of the examples, fused runs compared with one after the other",
        ("`fuse_jobs`", "V100", "A100"),
        tuple(rows),
        "up to 15.1 times the throughput of one job on each accelerator",
        "The paper measures the best of six networks on GPUs and TPUs, with as many jobs as fit. Our curve "
        "is for another network in float32 and a given number of jobs. The host's launches are a lower "
        "limit of its iteration time.",
    )


def serialized_traffic() -> Curve:
    text = (MODELS / "resnet50.py").read_text(encoding="utf-8")
    for old, new in _GROUP_NORM:
        text = text.replace(old, new)
    profile = traced(text, "v100").profile
    layers, samples = layers_of(profile), profile.batch_size or 0
    rows = []
    for size in (1, 2, 5, 10, 20, 40):
        one = moved(layers, samples, size * _MIB)
        ends = f"{min(one.sizes)} to {max(one.sizes)}" if one.sizes else "none"
        rows.append((str(size), f"{one.bytes / 1e9:.2f}", f"{one.less:.0%}", str(len(one.sizes)), ends))
    return Curve(
        "serialized_traffic",
        f"Mini-batch serialization: memory traffic of ResNet-50 with group normalization, bfloat16, batch {samples}",
        ("buffer, MiB", "traffic, GB", "less than in lockstep", "groups", "samples of a sub-batch"),
        tuple(rows),
        "75 % less DRAM traffic for modern deep networks, sub-batches and accelerator together (abstract of "
        "[arXiv:1810.00307](https://arxiv.org/abs/1810.00307), which does not give the size of the buffer)",
        "Our curve has only the paper's order of the work. Each normalization reads its input once, also in "
        "lockstep. Each activation that a backward pass needs is stored whole. Branches wait in memory. The "
        "parts of a group are copied into one tensor. Gradients of weights are added for each sub-batch. "
        "The shortest path of `serialize` gives the groups with the least traffic. In lockstep the traffic "
        f"is {moved(layers, samples, 0).now_bytes / 1e9:.2f} GB. The shapes of all kernels of both passes "
        f"give {_recorded_bytes(profile) / 1e9:.2f} GB.",
    )


def _recorded_bytes(profile: Profile) -> int:
    """The smallest number of bytes that the kernels of both passes read and write, in the first iteration."""
    trace = profile.trace
    passes = (Phase.FORWARD, Phase.BACKWARD)
    return sum(
        trace.shapes[one.shape].bytes_moved
        for one in trace.records
        if one.shape >= 0 and one.phase in passes and one.iteration == trace.iterations[0].index
    )


def serialization() -> Curve:
    with tempfile.TemporaryDirectory() as folder:
        script = HERE / "divided_scripts" / "images.py"
        analysis = analyse(
            capture(CaptureRequest(script, working_directory=Path(folder)), progress=lambda _: None)
        )
    sizes = ("1", "2", "4", "8", "16", "32")
    rows = [
        (size, ratio(analysis, one))
        for size, one in zip(sizes, answers(analysis, "serialize", sizes), strict=True)
    ]
    if len({said for _, said in rows}) == 1:
        rows = [(f"{sizes[0]} to {sizes[-1]}", rows[0][1])]
    return Curve(
        "serialization",
        "Mini-batch serialization: a convolutional network with group normalization, on this processor",
        ("`serialize`, MB", "iteration"),
        tuple(rows),
        "75 % less memory traffic and 53 % more speed, on an accelerator of the authors",
        "The paper's figures are for an accelerator made for this method. The caches of a processor already "
        "hold much of a batch, and each sub-batch calls every operator again. Smaller batches are faster "
        "where the iteration time rises steeply with the batch size, as on a machine with slow page faults.",
    )


def mlet() -> Curve:
    text = (HERE / "ground_truth_models" / "dlrm.py").read_text(encoding="utf-8")
    text = text.replace("(4, 5_000, 16, 13) if args.small else (26, 200_000, 64, 13)", "(26, 20_000, 16, 13)")
    text = text.replace('device = "cuda" if torch.cuda.is_available() else "cpu"', 'device = "cuda"')
    analysis = traced(text, "v100")
    values = ("4", "8", "32", "64", "128")
    rows = [
        (value, ratio(analysis, one), f"{one.peak.value / analysis.baseline.peak.total:.2f}")
        for value, one in zip(values, answers(analysis, "embedding_factorization", values), strict=True)
    ]
    return Curve(
        "mlet",
        "MLET: the 26 tables of a recommender, 16 numbers wide, as two layers, V100",
        ("`embedding_factorization`", "iteration", "peak memory"),
        tuple(rows),
        "25 % more training time on average with wider inner layers; tables of a quarter to an eighth of "
        "the width for the same accuracy",
        "The paper uses the tables of Criteo-Kaggle and Avazu, and times whole trainings. Here all tables "
        "are smaller and on the GPU. Their gradients are dense, so that clearing and update grow with the "
        "inner width.",
    )


def fae() -> Curve:
    plain = (HERE / "lookup_scripts" / "zipf_recommender.py").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(plain, encoding="utf-8")
        request = CaptureRequest(script, batch_points=0, trials=False, settle_s=_SETTLE_S)
        seen = analyse(capture(request, progress=lambda _: None))
    values = seen.profile.values
    if values is None or not values.hot:
        sys.exit("fae: no lookup was counted in the run. Run it again while no other program computes.")
    text = plain
    for old, new in _ON_GPU:
        text = text.replace(old, new)
    analysis = traced(text, "v100")
    analysis = analyse(replace(analysis.profile, values=values))
    total = sum(one.size_bytes for one in values.tables)
    table_rows = values.tables[0].rows
    sizes = ("1", "2", "4", "8", "16", "32")
    rows = []
    for size, one in zip(sizes, answers(analysis, "hot_embeddings", sizes), strict=True):
        part = 1e6 * int(size) / total
        hot = hot_at(values.hot, part * total)
        ends = f"{format_share(hot.least_share)} to {format_share(hot.most_share)}"
        rows.append(
            (
                size, format_share(part), f"{format_share(hot.hit_share)} ({ends})",
                format_share(zipf_share(round(part * table_rows), table_rows)), speed(one),
            )
        )  # fmt: skip
    return Curve(
        "fae",
        "FAE: a recommender with eight tables, 51 MB together, on the host; Zipf's law with exponent 1.05, V100",
        (
            *("`hot_embeddings`, MB", "of all tables", "lookups that it answers, counted"),
            *("lookups by the law", "speed"),
        ),
        tuple(rows),
        "2.3 times as fast as a processor alone, and 1.52 times as fast as a processor with a GPU; some "
        "rows are looked up 10,000 times as often as others (abstract of "
        "[arXiv:2103.00686](https://arxiv.org/abs/2103.00686), which gives no share of the lookups by size)",
        "The paper's models have production scale and real data, and batches of only hot samples run "
        "without the host. Our model has eight small tables, and each batch is divided. Our speed is "
        "relative to the same tables on the host of a GPU, so the figure to compare is 1.52. Lookups were "
        f"counted here in {values.basis}. Rows with few lookups by chance count as cold, so the share is "
        "too small if the memory holds many rows.",
    )


def zipf_share(hot: int, rows: int, exponent: float = 1.05) -> float:
    """The share of lookups in the most popular rows of a table, by Zipf's law."""
    chances = [rank**-exponent for rank in range(1, rows + 1)]
    return sum(chances[:hot]) / sum(chances)


def cpr() -> Curve:
    rows = []
    for share in (1e-5, 1e-4, 1e-3, 3.4e-3, 1e-2):
        best = best_interval_s(share, 1.0)
        rows.append(
            (
                f"{100 * share:g} %",
                f"{lost_share(best, share, share, 1.0):.2%}",
                f"{share / best + share:.2%}",
            )
        )
    return Curve(
        "cpr",
        "CPR: time lost at the best interval, by the time of a save over the time between failures",
        ("save over mean time between failures", "full recovery", "partial recovery, a bound"),
        tuple(rows),
        "8.2 to 8.5 % lost before, 0.53 to 0.68 % after",
        "A save that takes a third of a per cent of the time between failures loses about as much as the "
        "paper's system did before CPR. The bound here keeps the interval of full recovery. CPR saves less "
        "often, as far as the accuracy allows.",
    )


CURVES: dict[str, Callable[[], Curve]] = {
    "prune_train": prune_train,
    "flex_sa": flex_sa,
    "hfta": hfta,
    "serialized_traffic": serialized_traffic,
    "serialization": serialization,
    "mlet": mlet,
    "fae": fae,
    "cpr": cpr,
}
RUN_HERE = ("serialization", "fae")


def page(curves: Sequence[Curve]) -> str:
    """A section for each curve."""
    parts = [
        f"## {one.title}\n\n{table(list(one.head), [list(row) for row in one.rows])}\n\n"
        f"The paper: {one.published}.\n\nReasons for the difference: {one.differs}"
        for one in curves
    ]
    return (
        "All figures are predicted, not measured. Ratios are relative to the unchanged script, with the "
        "range of the answer. P3 and BPPSA have separate pages: [P3](p3_curves.md), "
        "[BPPSA](scan_backward.md).\n\n" + "\n\n".join(parts)
    )


def kept(results: Path) -> dict[str, Curve]:
    """The curves of the result file."""
    path = results / f"{NAME}.json"
    if not path.is_file():
        return {}
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    known = [
        Curve(**{**one, "head": tuple(one["head"]), "rows": tuple(map(tuple, one["rows"]))})
        for one in figures
    ]
    return {one.name: one for one in known}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=tuple(CURVES), default=list(CURVES))
    parser.add_argument(
        "--without-runs", action="store_true", help="leave out the curves that need a run on this machine"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    curves = kept(options.results)
    for name in options.only:
        if options.without_runs and name in RUN_HERE:
            continue
        curves[name] = CURVES[name]()
        print(name, *curves[name].rows, sep="\n  ", file=sys.stderr, flush=True)
        drawn = [curves[one] for one in CURVES if one in curves]
        figures = [asdict(one) for one in drawn]
        write(
            NAME,
            "Headline cases of papers, predicted",
            machine,
            page(drawn),
            figures,
            results=options.results,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
