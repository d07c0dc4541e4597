"""The trials of a tuning run, and the file next to the profile that keeps them."""

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
"""A combination that gains less than 2 % is not offered."""
TUNE_STATE_SCHEMA = "skyline.tune-state/1"
_LARGEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class TuneTrial:
    """A combination, its simulated speed-up, and the outcome of its trial.

    ``speedup`` is samples per second over those of the unchanged script, None if the trial failed; ``null`` is the
    unchanged script over itself. ``reason`` says why a trial is dropped, or why its figures are uncertain. ``worker``
    is the worker of a cluster that measured both versions, None if this machine did.
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
    """The trials of a profile, from which a later search goes on."""

    profile_id: str
    trials: tuple[TuneTrial, ...] = ()
    schema: str = TUNE_STATE_SCHEMA

    def with_trial(self, trial: TuneTrial) -> TuneState:
        """With one more trial."""
        return replace(self, trials=(*self.trials, trial))


def state_path(profile: Path) -> Path:
    """The file that belongs to a saved profile."""
    return profile.with_name(profile.name.removesuffix(SUFFIX) + ".tune.json")


def encoded(state: TuneState) -> bytes:
    """The bytes of the file."""
    return msgspec.json.encode(state)


def save_state(path: Path, state: TuneState) -> None:
    """Replace the file in one step. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(encoded(state))
    part.replace(path)


def fastest_measured(trials: Sequence[TuneTrial]) -> TuneTrial | None:
    """The trial with the largest measured speed-up: the best of kept trials, of which no simulation is at hand."""
    found = [one for one in trials if one.speedup is not None and not one.dropped]
    found = [one for one in found if not one.reason] or found
    return max(found, key=lambda one: 0.0 if one.speedup is None else one.speedup.value, default=None)


def load_state(path: Path) -> TuneState | None:
    """The kept state; None if there is no file. Raises UsageError for a file that is not one."""
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
    """The trials of a search so far, and their file; without a saved profile they are not kept."""

    path: Path | None
    state: TuneState

    @classmethod
    def of(cls, profile_id: str, saved: Path | None, *, resume: bool) -> KeptTrials:
        """With ``resume`` the trials of the last search over this profile, else none. ``saved`` is the profile's file.

        Raises UsageError for a damaged file.
        """
        path = None if saved is None else state_path(saved)
        earlier = load_state(path) if resume and path is not None else None
        if earlier is None or earlier.profile_id != profile_id:
            earlier = TuneState(profile_id)
        return cls(path, earlier)

    def add(self, trial: TuneTrial) -> str:
        """Keep one more trial; the reason if it cannot be written, empty otherwise. No later one is written then."""
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
