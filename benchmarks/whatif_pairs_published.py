"""Scores what-ifs on published pairs: one model measured with and without a change.

``whatif_pairs_published.py --data FOLDER`` needs a folder with ``published`` (image models with and without channels
last and compiling, and NVIDIA's single and mixed precision) and ``traces`` (a training script with and without loader
workers). The side without the change becomes a predicted profile, or is the recorded trace. The what-if then changes
its graph, as ``skyline whatif`` does. The side with the change is used only for the score.

The baselines are "no change", the roofline of the operators of both sides, and separate predictions of both sides.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean, median

from image_rows import ImageRow, Programs, image_rows, sampled
from machine import Machine
from nvidia_rows import nvidia_rows, step_of
from operator_table import STORE, TableRow, TableStore
from predicted_steps import predicted_step
from result_file import RESULTS, table, write
from table_profile import predicted_profile

from skyline.analysis.estimate import answer
from skyline.interval import Interval
from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.registry import predictor_for
from skyline.trace.kineto.reader import read
from skyline.whatif.baseline import baseline
from skyline.whatif.conformal import ScoredRange, factor_of, published_factors, stretched
from skyline.whatif.question import Choice, Estimate
from skyline.whatif.recorded import recorded
from skyline.whatif.subject import Subject
from skyline_predictors.roofline import Roofline

_CLEAR = 0.05
"""Published effects below this are left out of the count of signs, because repeats of one row differ by as much."""
_USABLE = 0.9
"""Share of a GPU's memory that a step may use."""
_WORKERS = (("kineto_2101_resnet50_workers0", "kineto_2101_resnet50_workers4", "4"),)
_BANDS = ((0.0, 0.05), (0.05, 0.15), (0.15, 0.3), (0.3, 0.5), (0.5, 1.0))
"""Classes of half widths of the predicted range, relative to the ratio, in which containment is counted."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The time with a change over the time without it: measured, predicted with its range, and by the baselines."""

    whatif: str
    group: str
    model: str
    family: str
    measured: float
    predicted: float
    low: float
    high: float
    roofline: float | None = None
    apart: float | None = None

    @property
    def clear(self) -> bool:
        """True if the measured effect exceeds the scatter of repeated rows."""
        return abs(self.measured - 1) > _CLEAR

    @property
    def right(self) -> bool:
        """True if the prediction has the sign of the measured effect."""
        return (self.predicted - 1) * (self.measured - 1) > 0

    @property
    def inside(self) -> bool:
        """True if the predicted range contains the measured ratio."""
        return self.low <= self.measured <= self.high

    @property
    def width(self) -> float:
        """Half of the range, relative to the prediction."""
        return (self.high - self.low) / 2 / self.predicted


@dataclass(frozen=True, slots=True)
class Refused:
    """A pair without a prediction, with the product's reason."""

    whatif: str
    model: str
    reason: str


def image_pairs(rows: Sequence[ImageRow], programs: Programs) -> Iterator[Pair | Refused]:
    """Pairs of channels last and of compiling, from rows that differ in nothing else."""
    by_key: dict[tuple[object, ...], ImageRow] = {}
    for row in rows:
        by_key[_key(row, row.layout, row.compiled)] = row
    for row in by_key.values():
        if row.layout != "nchw" or row.compiled:
            continue
        changed = {
            "channels_last": by_key.get(_key(row, "nhwc", False)),
            "compile": by_key.get(_key(row, "nchw", True)),
        }
        if not any(changed.values()) or programs.table(row) is None:
            continue
        subject = _subject(row, programs)
        for name, after in changed.items():
            if after is not None:
                yield _image_pair(name, row, after, subject, programs)


def _key(row: ImageRow, layout: str, compiled: bool) -> tuple[object, ...]:
    return (row.model, row.image_size, row.training, row.gpu, row.precision, row.torch, layout, compiled)


def _subject(row: ImageRow, programs: Programs) -> Subject:
    stored = programs.table(row)
    assert stored is not None
    gpu = gpu_named(row.gpu)
    profile = predicted_profile(
        stored, row.batch, gpu, predictor_for(gpu), training=row.training, renamed=row.renamed
    )
    return baseline(profile)


def _image_pair(
    name: str, before: ImageRow, after: ImageRow, subject: Subject, programs: Programs
) -> Pair | Refused:
    measured = (after.step_ms / after.batch) / (before.step_ms / before.batch)
    said = answer(subject, [Choice(name)])
    mode = "training" if before.training else "inference"
    group = f"{name}, {mode}, {before.gpu}"
    if said.reason:
        return Refused(name, before.model, said.reason)
    return _with_baselines(_pair(name, group, before, measured, said), before, after, programs)


def _with_baselines(pair: Pair, before: ImageRow, after: ImageRow, programs: Programs) -> Pair:
    """The pair with the ratios of separate predictions of both sides. Without them if a side is not stored."""
    ratios: list[float] = []
    for predictor in (Roofline(), predictor_for(gpu_named(before.gpu))):
        under, over = (_apart(row, programs, predictor) for row in (before, after))
        if under is None or over is None:
            return pair
        ratios.append(over / under)
    return replace(pair, roofline=ratios[0], apart=ratios[1])


def _pair(name: str, group: str, row: ImageRow, measured: float, said: Estimate) -> Pair:
    found = said.speedup_range
    low, high = (1 / found.high, 1 / found.low) if found is not None else (1.0, 1.0)
    predicted = 1 / said.speedup
    low, high = (_modelled(predicted, end, name) for end in (low, high))
    return Pair(name, group, row.model, row.family, measured, predicted, low, high)


def _apart(row: ImageRow, programs: Programs, predictor: OperatorPredictor) -> float | None:
    """The predicted time per sample of one side, alone."""
    stored = programs.table(row)
    if stored is None:
        return None
    calls: Sequence[TableRow] = stored.fused if row.compiled else stored.calls
    shapes = [call.at(row.batch, row.renamed) for call in calls]
    return predicted_step(calls, shapes, gpu_named(row.gpu), predictor).value_ms / row.batch


def precision_pairs(folder: Path, programs: Programs) -> Iterator[Pair | Refused]:
    """Pairs of NVIDIA's single and mixed precision. Mixed precision ran in float16 and channels last."""
    rows, _ = nvidia_rows(folder)
    for row in rows:
        before, after = step_of(row, "fp32", "nchw"), step_of(row, "amp", "nhwc")
        if programs.table(before) is None:
            yield Refused("amp", row.model, programs.store.why_missing(programs.key(before)))
            continue
        subject = _fitting(before, programs)
        said = answer(subject, [Choice("amp", "fp16"), Choice("channels_last")])
        if said.reason:
            yield Refused("amp", row.model, said.reason)
            continue
        sides = [replace(side, batch=subject.batch_size or side.batch) for side in (before, after)]
        measured = row.single_per_s / row.mixed_per_s
        group = f"amp + channels_last, training, {row.gpu[:4]} ({row.single})"
        yield _with_baselines(_pair("amp", group, before, measured, said), sides[0], sides[1], programs)


def _fitting(row: ImageRow, programs: Programs) -> Subject:
    """The step in single precision. The batch is halved until it fits, because it belongs to mixed precision."""
    subject = _subject(row, programs)
    while subject.peak.total > _USABLE * gpu_named(row.gpu).memory_bytes and row.batch > 1:
        row = replace(row, batch=row.batch // 2)
        subject = _subject(row, programs)
    return subject


def worker_pairs(folder: Path) -> Iterator[Pair | Refused]:
    """Loader workers, from a recorded trace without them."""
    for before, after, workers in _WORKERS:
        paths = [folder / f"{name}.json.gz" for name in (before, after)]
        if not all(path.exists() for path in paths):
            yield Refused("num_workers", before, "the traces are not in the folder")
            continue
        subject, other = (recorded(read(path)) for path in paths)
        said = answer(subject, [Choice("num_workers", workers)])
        if said.reason or said.speedup_range is None:
            yield Refused("num_workers", before, said.reason or "no range")
            continue
        found = said.speedup_range
        yield Pair(
            "num_workers",
            "num_workers, trace",
            before,
            "resnet",
            other.iteration_ms.value / subject.iteration_ms.value,
            1 / said.speedup,
            1 / found.high,
            1 / found.low,
        )


def page(pairs: Sequence[Pair], refused: Sequence[Refused]) -> str:
    """Scores by what-if and setting, containment by the width of the range, and the refused pairs."""
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.whatif].append(pair)
    for pair in pairs:
        groups[pair.group].append(pair)
    head = (
        "change",
        "pairs",
        "error",
        "p90",
        "bias",
        "right sign",
        "inside",
        "width",
        "no change",
        "roofline",
        "apart",
    )
    rows = [_line(name, own) for name, own in groups.items()]
    reasons: dict[str, list[str]] = defaultdict(list)
    for one in refused:
        reasons[f"`{one.whatif}`: {one.reason}"].append(one.model)
    told = "\n".join(
        f"- {why}: {len(names)} ({', '.join(sorted(set(names))[:6])})" for why, names in reasons.items()
    )
    return (
        f"{len(pairs)} pairs. The figure is the time of a sample with the change over the time without it. "
        "`error` is the mean absolute relative error of that ratio, `p90` is exceeded by one in ten, and "
        f"`bias` is the median. `right sign` counts measured effects above {_CLEAR:.0%}. `inside` counts "
        "measured ratios inside the predicted range, and `width` is half of that range relative to the ratio "
        "(median). Both are as modelled. Three columns are mean errors of other answers: `no change`, "
        "`roofline` (operators of both sides), and `apart` (both sides predicted separately, which needs the "
        "changed program). Calls that a stored program counts together are ordered by the sizes of their "
        "tensors.\n\n"
        f"{table(head, rows)}\n\n## Containment on families that set nothing\n\n"
        "Half of the model families, by a hash of their names, stretch the range of each what-if (split conformal "
        "prediction, rank ⌈0.9 (n + 1)⌉, 20 pairs at least); the other half is scored. The goal is 85 to 95 %.\n\n"
        f"{_coverage(pairs, widths(pairs))}\n\n## Modelled ranges: containment by width\n\n{_reliability(pairs)}"
        f"\n\n## Without an answer\n\n{told or 'none'}"
    )


def _line(name: str, own: Sequence[Pair]) -> tuple[str, ...]:
    errors = sorted(abs(pair.predicted / pair.measured - 1) for pair in own)
    clear = [pair for pair in own if pair.clear]
    roofline = [abs(pair.roofline / pair.measured - 1) for pair in own if pair.roofline is not None]
    apart = [abs(pair.apart / pair.measured - 1) for pair in own if pair.apart is not None]
    return (
        name,
        str(len(own)),
        f"{fmean(errors):.1%}",
        f"{errors[min(len(errors) - 1, int(0.9 * len(errors)))]:.1%}",
        f"{median(pair.predicted / pair.measured - 1 for pair in own):+.1%}",
        f"{sum(pair.right for pair in clear)} of {len(clear)}",
        f"{sum(pair.inside for pair in own)} of {len(own)}",
        f"±{median(pair.width for pair in own):.0%}",
        f"{fmean(abs(1 / pair.measured - 1) for pair in own):.1%}",
        f"{fmean(roofline):.1%}" if roofline else "",
        f"{fmean(apart):.1%}" if apart else "",
    )


def _reliability(pairs: Sequence[Pair]) -> str:
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(pair.whatif for pair in pairs):
        own = [pair for pair in pairs if pair.whatif == name]
        for least, most in _BANDS:
            inside = [pair.inside for pair in own if least <= pair.width < most]
            if inside:
                rows.append((name, f"±{least:.0%} to ±{most:.0%}", str(len(inside)), f"{fmean(inside):.0%}"))
    return table(("change", "half width", "pairs", "inside"), rows)


def sets_widths(pair: Pair) -> bool:
    """True for half of the model families. The widths are set on these and scored on the others."""
    return sha256(f"widths {pair.family}".encode()).digest()[0] % 2 == 0


def widths(pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """The factor of each what-if, from pairs of the families that set widths, with their number."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(pair.whatif for pair in pairs):
        cases = [_case(pair) for pair in pairs if pair.whatif == name and sets_widths(pair)]
        factor = factor_of(cases)
        if factor is not None:
            found[name] = {"factor": round(factor, 3), "cases": len(cases)}
    return found


def _case(pair: Pair) -> ScoredRange:
    return ScoredRange(Interval(pair.predicted, pair.low, pair.high), pair.measured)


def _coverage(pairs: Sequence[Pair], factors: Mapping[str, Mapping[str, float]]) -> str:
    """Containment before and after, on families that set no widths."""
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(pair.whatif for pair in pairs):
        own = [pair for pair in pairs if pair.whatif == name and not sets_widths(pair)]
        if not own:
            continue
        factor = factors.get(name, {}).get("factor")
        wide = own if factor is None else [_widened(pair, factor) for pair in own]
        rows.append(
            (
                name,
                "modelled" if factor is None else f"{factor:.2f} by {factors[name]['cases']:.0f} pairs",
                str(len(own)),
                *(
                    cell
                    for some in (own, wide)
                    for cell in (
                        f"{fmean(pair.inside for pair in some):.0%}",
                        f"±{median(pair.width for pair in some):.0%}",
                    )
                ),
            )
        )
    head = ("change", "factor", "pairs", "inside, modelled", "width", "inside, stretched", "width")
    return table(head, rows)


def _widened(pair: Pair, factor: float) -> Pair:
    wide = stretched(Interval(pair.predicted, pair.low, pair.high), factor)
    return replace(pair, low=wide.low, high=wide.high)


def _modelled(predicted: float, end: float, name: str) -> float:
    """An end of the modelled range, computed back from the answer, which the package stretches by a factor."""
    return predicted * (end / predicted) ** (1 / published_factors().get(name, 1.0))


def main() -> None:
    """Score all pairs, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with published and traces")
    parser.add_argument("--sample", type=int, default=0, help="only so many models, spread over the families")
    parser.add_argument("--store", type=Path, default=STORE, help="file of operator tables")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--widths", type=Path, help="write the factors of ranges into this file")
    options = parser.parse_args()
    machine = Machine.here()
    programs = Programs(TableStore(options.store))
    rows = [row for row in image_rows(options.data / "published") if programs.stored(row)]
    if options.sample:
        rows = sampled(rows, options.sample)
    found = [
        *worker_pairs(options.data / "traces"),
        *precision_pairs(options.data / "published", programs),
        *image_pairs(rows, programs),
    ]
    programs.close()
    pairs = [one for one in found if isinstance(one, Pair)]
    refused = [one for one in found if isinstance(one, Refused)]
    body = page(pairs, refused)
    figures = {"pairs": [asdict(one) for one in pairs], "refused": [asdict(one) for one in refused]}
    if options.widths:
        content = {"source": "benchmarks/whatif_pairs_published.py", "factors": widths(pairs)}
        options.widths.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(
        write(
            "whatif_pairs_published",
            "What-ifs and published pairs",
            machine,
            body,
            figures,
            results=options.results,
        )
    )


if __name__ == "__main__":
    main()
