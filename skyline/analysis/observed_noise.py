"""The gradient noise scale of a profile: as the user gave it, or from the gradients of observed training."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.analysis.gpu_costs import samples_of
from skyline.lazy_dataclass import dataclass
from skyline.predict.noise_scale import NoiseScale, noise_scale, over_training
from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class NoisePoint:
    """The noise scale after so many updates of the weights, in samples; null where the gradients do not bound it."""

    updates: int
    loss: float | None
    scale: NoiseScale


def noise_points(profile: Profile) -> tuple[NoisePoint, ...]:
    """The noise scale at each moment at which gradients were compared."""
    training = profile.training
    if training is None:
        return ()
    sizes = [
        one.dataset_size for one in profile.loaders if one.fetches_per_iteration > 0 and one.dataset_size
    ]
    dataset = max(sizes, default=None)
    found: list[NoisePoint] = []
    for one in training.gradients:
        scale = noise_scale(one, training.samples, dataset)
        if scale is not None:
            found.append(NoisePoint(one.updates, one.loss, scale))
    return tuple(found)


def noise_of(profile: Profile, points: Sequence[NoisePoint], samples: float | None) -> NoiseScale | None:
    """The one noise scale of a training of so many samples; None: of the training that was observed.

    None if no gradients were compared.
    """
    if not points:
        return None
    per_step = samples_of(profile) or 1
    updates = points[-1].updates if samples is None else samples / per_step
    return over_training([(one.updates, one.scale) for one in points], per_step, updates)
