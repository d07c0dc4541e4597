"""The settings of a run whose values are in settings files, at one known place each."""

from __future__ import annotations

from skyline.source.knob import SettingPlace
from skyline.trace.batch_place import batch_place
from skyline.trace.profile import Profile


def held_settings(profile: Profile) -> tuple[SettingPlace, ...]:
    """The places of the batch size, the loader workers and the accumulated batches, as far as files hold them."""
    batch_size = batch_place(profile).setting or profile.setting
    others = (each.places[0] for each in profile.configured if len(each.places) == 1)
    return (*([batch_size] if batch_size is not None else []), *others)
