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
    is the worker that measured both versions; empty: this process did.
    """

    changes: tuple[str, ...]
    predicted: Interval
    speedup: Interval | None = None
    null: float = 1.0
    peak_bytes: int | None = None
    took_s: float = 0.0
    dropped: bool = False
    reason: str = ""
    worker: str = ""

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
        raise UsageError(f"{path} cannot be read: {error}", hint="Leave out --resume.") from error
    if state.schema != TUNE_STATE_SCHEMA:
        raise UsageError(f"{path} is of another version", hint="Leave out --resume.")
    return state
