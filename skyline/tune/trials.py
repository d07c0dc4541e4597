"""The trials of a tuning run, and the file next to the profile that stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from skyline.bounded_read import read_unpacked
from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.store import SUFFIX
from skyline.whatif.question import Choice

WORTH = 1.02
"""The least speed-up of a combination that is offered: a gain of 2 %."""
TUNE_STATE_SCHEMA = "skyline.tune-state/1"
_LARGEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class TuneTrial:
    """A combination, its simulated speed-up, and the outcome of its trial.

    ``speedup`` is samples per second relative to the unchanged script, None if the trial failed; ``null`` is
    the unchanged script compared with itself. ``reason`` says why a trial is dropped, or why its figures are
    uncertain. ``worker`` is the worker of a cluster that measured both versions, None if this machine did.
    """

    changes: tuple[str, ...]
    predicted: Interval
    speedup: Interval | None = None
    null: float = 1.0
    peak_bytes: int | None = None
    took_s: float = 0.0
    dropped: bool = False
    reason: str | None = None
    worker: str | None = None

    @property
    def parts(self) -> frozenset[Choice]:
        """The changes as parts of a question."""
        return frozenset(map(Choice.parse, self.changes))

    @property
    def words(self) -> str:
        """The changes as they are typed."""
        return " ".join(self.changes)


@dataclass(frozen=True, slots=True)
class TuneState:
    """The trials of a profile, with which a later search continues."""

    profile_id: str
    trials: tuple[TuneTrial, ...] = ()
    schema: str = TUNE_STATE_SCHEMA

    def with_trial(self, trial: TuneTrial) -> TuneState:
        """The state with one more trial."""
        return replace(self, trials=(*self.trials, trial))


def state_path(profile: Path) -> Path:
    """The file of trials that belongs to a saved profile."""
    return profile.with_name(profile.name.removesuffix(SUFFIX) + ".tune.json")


def encoded(state: TuneState) -> bytes:
    """The bytes of the file."""
    return msgspec.json.encode(state)


def save_state(path: Path, state: TuneState) -> None:
    """Replaces the file in one step. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(encoded(state))
    part.replace(path)


def fastest_measured(trials: Sequence[TuneTrial]) -> TuneTrial | None:
    """The trial with the largest measured speed-up, for stored trials without simulations."""
    found = [one for one in trials if one.speedup is not None and not one.dropped]
    found = [one for one in found if not one.reason] or found
    return max(found, key=lambda one: 0.0 if one.speedup is None else one.speedup.value, default=None)


def load_state(path: Path) -> TuneState | None:
    """The stored state; None if there is no file. Raises UsageError for any other file."""
    try:
        state = msgspec.json.decode(read_unpacked(path, _LARGEST_BYTES), type=TuneState)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="Omit --resume.") from error
    if state.schema != TUNE_STATE_SCHEMA:
        raise UsageError(f"{path} is of another version", hint="Omit --resume.")
    return state


@dataclass(slots=True)
class KeptTrials:
    """The trials of a search so far, and their file; without a saved profile they are not stored."""

    path: Path | None
    state: TuneState

    @classmethod
    def of(cls, profile_id: str, saved: Path | None, *, resume: bool) -> KeptTrials:
        """The trials of the last search over this profile with ``resume``, else none. ``saved`` is its file.

        Raises UsageError for a damaged file.
        """
        path = None if saved is None else state_path(saved)
        earlier = load_state(path) if resume and path is not None else None
        if earlier is None or earlier.profile_id != profile_id:
            earlier = TuneState(profile_id)
        return cls(path, earlier)

    def add(self, trial: TuneTrial) -> str:
        """Stores one more trial; returns the reason if that fails, after which no later one is written."""
        self.state = self.state.with_trial(trial)
        if self.path is None:
            return ""
        try:
            save_state(self.path, self.state)
        except OSError as error:
            problem = f"{self.path} cannot be written: {error.strerror or error}"
            self.path = None
            return problem
        return ""
