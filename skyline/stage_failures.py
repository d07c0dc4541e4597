"""Stages that may fail: a failure adds a note, and earlier results remain."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from skyline.entry_points import said
from skyline.errors import Cancelled, SkylineError

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


def failure(error: Exception) -> str:
    """The reason for the failure of a stage, in one line for the user."""
    if isinstance(error, SkylineError):
        return error.message.rstrip(".")
    return f"{said(error)} (a fault in Skyline: please report it)"


class StageFailures:
    """Runs stages one after another and keeps a note of each that fails.

    A cancellation is no failure: it ends the work.
    """

    def __init__(self) -> None:
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """The failures and their reasons, in order of occurrence."""
        return tuple(self._notes)

    def to(
        self,
        do: str,
        stage: Callable[[], _Result],
        otherwise: _Result,
        *,
        ended: type[Exception] | tuple[type[Exception], ...] = (),
        raising: tuple[type[Exception], ...] = (),
    ) -> _Result:
        """The result of the stage. If it fails, ``otherwise``, with a note that the action ``do`` was impossible.

        ``ended`` are exceptions that are not faults; their text is the reason. Exceptions in ``raising``
        propagate to the caller.
        """
        try:
            return stage()
        except (Cancelled, *raising):
            raise
        except ended as error:
            reason = str(error)
        except Exception as error:
            reason = failure(error)
            logger.info("could not %s", do, exc_info=True)
        self._notes.append(f"Could not {do}: {reason}.")
        return otherwise
