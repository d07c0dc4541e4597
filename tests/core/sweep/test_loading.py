from dataclasses import replace

import pytest

from skyline.sweep.predicted import LoadingRate
from skyline.trace.facts import TimedRead
from skyline.trace.profile import Profile


def reading(profile: Profile, first_us: float, tensor_bytes: int) -> Profile:
    """A batch whose reading takes place on two lines."""
    reads = (TimedRead(0, 1, first_us, (tensor_bytes, 8)), TimedRead(1, 2, first_us / 2))
    return replace(profile, timed_reads=reads)


def test_later_points_load_at_the_rate_of_the_first(profile: Profile) -> None:
    rate = LoadingRate()
    first = reading(profile, 100.0, 992)
    assert rate.applied(first) == first
    noisy = rate.applied(reading(profile, 250.0, 992)).timed_reads
    assert [one.took_us for one in noisy] == pytest.approx([100.0, 50.0])
    twice = rate.applied(reading(profile, 90.0, 1992)).timed_reads
    assert [one.took_us for one in twice] == pytest.approx([200.0, 100.0])


def test_a_script_that_loads_nothing_stays_as_it_is(profile: Profile) -> None:
    rate = LoadingRate()
    assert rate.applied(profile) is profile
    untimed = reading(profile, 0.0, 992)
    assert rate.applied(untimed) is untimed
