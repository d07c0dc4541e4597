"""The goal of a training by the log of a watched run that reached it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skyline.analysis.gpu_costs import samples_of
from skyline.errors import UsageError
from skyline.trace.observed_training import TrainingGoal
from skyline.trace.profile import Profile
from skyline.watch.diary import entries, histories
from skyline.watch.mllog import LoggedTraining

_LATEST = 5
"""Number of runs that are looked at."""


def with_reached_goal(profile: Profile) -> Profile:
    """The profile with the samples of the latest watched run that reached its target, unless it has a goal.

    A run with another batch size says nothing about the script as it is.
    """
    if profile.goal is not None:
        return profile
    for path in histories(Path(profile.script))[:_LATEST]:
        try:
            history = list(entries(path, containing='"logged"'))
        except UsageError:
            continue
        logged = [LoggedTraining.of_history(one) for one in history if one.get("kind") == "logged"]
        last = logged[-1] if logged else LoggedTraining()
        same = last.batch_size is None or last.batch_size == samples_of(profile)
        if last.status == "success" and last.samples and same:
            source = f"{last.samples:,.0f} samples to the target in a watched run"
            return replace(profile, goal=TrainingGoal(last.samples, source=source))
    return profile
