"""Time and cost to train a script, as the JSON that other programs read: ``skyline.estimate/1``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from skyline.analysis.analyse import Analysis
from skyline.analysis.gpu_costs import samples_of
from skyline.analysis.observed_noise import NoisePoint, noise_of, noise_points
from skyline.analysis.training_time import (
    Amount,
    TrainingTime,
    fastest,
    samples_of_epoch,
    training_times,
)
from skyline.errors import CaptureImpossible, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import usable_bytes
from skyline.predict.checkpoint_interval import Failures, Saving, saving
from skyline.predict.noise_scale import NoiseScale
from skyline.trace.observed_training import ObservedTraining
from skyline.trace.profile import Profile

ESTIMATE_SCHEMA = "skyline.estimate/1"
_GROWTH = 2.0
"""A remark is made if the noise scale grows by this factor while it is observed."""


@dataclass(frozen=True, slots=True)
class HourlyPrice:
    """US dollars per hour of the machine, and the source of the price."""

    usd: float
    source: str


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """``skyline.estimate/1``. Times in s. ``fastest`` and ``cheapest`` are batch sizes of rows; null without rows.

    ``noise`` is the critical batch size with its range. It was measured at ``points``, or given if there are
    none. ``saving`` is null if no checkpoint was observed; the rows do not include it.
    """

    schema: str
    script: str
    arguments: tuple[str, ...]
    created: str
    mode: str
    device: str
    batch_size: int
    samples_per_step: float
    samples: float
    epochs: float | None
    noise: NoiseScale
    points: tuple[NoisePoint, ...]
    price: HourlyPrice | None
    rows: tuple[TrainingTime, ...]
    fastest: int | None
    cheapest: int | None
    included: tuple[str, ...]
    not_included: tuple[str, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = ()
    saving: Saving | None = None

    @property
    def name(self) -> str:
        """The script's name and its arguments."""
        return " ".join((PurePath(self.script).name, *self.arguments))


def amount_of(
    profile: Profile, epochs: float | None, iterations: float | None, samples: float | None
) -> Amount:
    """The amount of training that was asked for; exactly one of the three arguments is set.

    Raises:
        CaptureImpossible: the batch size, or for epochs the size of the data set, is unknown.
    """
    per_step, epoch = samples_of(profile), samples_of_epoch(profile)
    if not per_step or not profile.batch_size:
        raise CaptureImpossible(
            "The batch size of the run is not known, so samples cannot be counted",
            hint="Take the batches from a DataLoader, or name the batch size in the script.",
        )
    if epochs is not None:
        if epoch is None:
            raise CaptureImpossible(
                "The length of an epoch is not known: no DataLoader gave the batches, or its data set has no length",
                hint="Give --iterations or --samples in place of --epochs.",
            )
        return Amount(epochs * epoch, epochs)
    total = iterations * per_step if iterations is not None else samples
    if total is None:
        raise UsageError(
            "Give the length of the training", hint="Example: --epochs 90, --iterations 1e6 or --samples 1e9."
        )
    return Amount(total, total / epoch if epoch else None)


def training_report(
    analysis: Analysis,
    amount: Amount,
    given: float | None,
    price: HourlyPrice | None,
    failures: Failures | None = None,
) -> TrainingReport:
    """The report of a profile with observed training; ``given`` replaces the measured noise scale.

    Raises:
        CaptureImpossible: no gradients were observed, or none of them differ.
    """
    profile = analysis.profile
    training = profile.training
    points = () if given is not None else noise_points(profile)
    noise = noise_of(profile, points, amount.samples) if given is None else NoiseScale(given, given, given)
    if noise is None:
        raise CaptureImpossible(
            "The gradients of all iterations are equal: there is no noise to measure",
            hint="A script that trains on one batch again and again has no critical batch size.",
        )
    rows = training_times(
        profile,
        analysis.curve,
        usable_bytes(profile),
        noise,
        amount,
        training,
        price.usd if price is not None else None,
    )
    quickest = fastest(rows)
    paid = [one for one in rows if one.usd is not None]
    cheapest = min(paid, key=lambda one: one.usd.value if one.usd else 0.0, default=None)
    included, missing = _costs(profile, training, amount)
    return TrainingReport(
        schema=ESTIMATE_SCHEMA,
        script=profile.script,
        arguments=profile.arguments,
        created=profile.created,
        mode=profile.mode,
        device=profile.environment.device.name,
        batch_size=profile.batch_size or 0,
        samples_per_step=float(samples_of(profile) or 0),
        samples=amount.samples,
        epochs=amount.epochs,
        noise=noise,
        points=points,
        price=price,
        rows=rows,
        fastest=quickest.batch_size if quickest else None,
        cheapest=cheapest.batch_size if cheapest else None,
        included=included,
        not_included=missing,
        assumptions=tuple(_assumptions(points, given)),
        notes=tuple(_notes(analysis, points)),
        saving=_saving(profile, failures or Failures()),
    )


def _saving(profile: Profile, failures: Failures) -> Saving | None:
    """Predicted iterations are those of a GPU, where neither the time of a save nor of an iteration was observed."""
    if profile.training is None or profile.prediction is not None:
        return None
    samples, per_step = samples_of_epoch(profile), samples_of(profile)
    return saving(profile.training, failures, samples / per_step if samples and per_step else None)


def _costs(
    profile: Profile, training: ObservedTraining | None, amount: Amount
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The costs outside the iterations that are in the times, and those that are not."""
    if training is None:
        return (), ("Start-up, compiling, validation and checkpoints: the training was not observed.",)
    included = [f"Start-up: {training.startup_s:.1f} s until the end of the first iteration, measured once."]
    if training.warming_s >= 0.05:
        included.append(
            f"First iterations: {training.warming_s:.1f} s beyond typical ones, as for compiling, measured once."
        )
    missing: list[str] = []
    if training.epoch_end_s is not None and amount.epochs is not None:
        each = f"{training.epoch_end_s:.2f} s for each" if training.epoch_end_s else "none seen"
        included.append(f"Ends of epochs (validation, checkpoint, loaders): {each}.")
    else:
        reason = (
            f"no end of an epoch was timed in the first {training.iterations:,} iterations (--observe S: a longer time)"
            if samples_of_epoch(profile)
            else "the length of an epoch is not known"
        )
        missing.append(f"Validation and checkpoints: {reason}.")
    if training.replayed_evaluations:
        missing.append(
            f"{training.replayed_evaluations} forward passes of evaluations before the first steps, which were "
            "replayed (--evaluation run runs them)."
        )
    if profile.prediction is not None:
        missing.append(
            "GPU work during start-up and ends of epochs: these times were measured on this machine."
        )
    return tuple(included), tuple(missing)


def _assumptions(points: Sequence[NoisePoint], given: float | None) -> Iterator[str]:
    yield (
        "Samples to the same loss grow with the batch B as 1 + B/N, steps as 1 + N/B, where N is the critical batch "
        "size (McCandlish et al. 2018)."
    )
    yield (
        "The learning rate fits each batch size: larger for larger batches. With an unchanged learning rate, a "
        "larger batch needs more samples than stated."
    )
    if given is not None:
        yield "The critical batch size is as given, without a range."
    elif points:
        yield "Later in the training the critical batch size is usually greater than at its start."


def _notes(analysis: Analysis, points: Sequence[NoisePoint]) -> Iterator[str]:
    adaptive = [one.name for one in analysis.profile.optimizers if one.name != "SGD"]
    if points and adaptive:
        yield (
            f"{adaptive[0]} scales gradients by their size: the critical batch size is then an order of "
            "magnitude, and the number of samples may be outside the range."
        )
    if len(analysis.curve) < 2:
        yield "Other batch sizes are not in the profile: its curve has one point."
    known = [one.scale.value for one in points if one.scale.value is not None]
    if len(known) > 1 and known[-1] > _GROWTH * known[0]:
        yield (
            f"The critical batch size grew from {known[0]:,.0f} to {known[-1]:,.0f} in the observed iterations and "
            "may grow further: --observe S lets the script train longer."
        )
    if points and points[-1].scale.high is None:
        yield "The gradients give only a lower bound of the critical batch size: their noise hides their mean."
    losses = [one.loss for one in points]
    if points and all(one is None for one in losses):
        yield "The loss was not found: backward was not called on a scalar."
