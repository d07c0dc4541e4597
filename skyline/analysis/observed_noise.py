"""The gradient noise scale of a profile: as given by the user, or from the gradients of an observed training."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.analysis.gpu_costs import samples_of
from skyline.lazy_dataclass import dataclass
from skyline.predict.noise_scale import NoiseScale, noise_scale, over_training
from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class NoisePoint:
    """The noise scale in samples after a number of updates of the weights. Null if the gradients give no bound."""

    updates: int
    loss: float | None
    scale: NoiseScale


def noise_points(profile: Profile) -> tuple[NoisePoint, ...]:
    """The noise scale at each point at which gradients were compared."""
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
    """The noise scale of a training with this many samples. With None, of the observed training.

    The result is None if no gradients were compared.
    """
    if not points:
        return None
    per_step = samples_of(profile) or 1
    updates = points[-1].updates if samples is None else samples / per_step
    return over_training([(one.updates, one.scale) for one in points], per_step, updates)
