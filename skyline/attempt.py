"""Stages that may fail at the cost of a note: what is known by then stands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from skyline.errors import Cancelled, SkylineError
from skyline.installed import said

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


def failure(error: Exception) -> str:
    """Why a stage failed, in one line for the person."""
    if isinstance(error, SkylineError):
        return error.message.rstrip(".")
    return f"{said(error)} (a fault in Skyline: please report it)"


class Attempts:
    """Runs stages one after another and keeps a note of each that fails.

    A cancellation is no failure: it ends the work.
    """

    def __init__(self) -> None:
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What failed and why, in the order in which it did."""
        return tuple(self._notes)

    def to(
        self,
        do: str,
        stage: Callable[[], _Result],
        otherwise: _Result,
        *,
        ended: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> _Result:
        """What the stage gives; ``otherwise`` where it fails, with a note that it could not ``do`` that.

        ``ended`` are exceptions that are no fault of anybody's, whose text is the reason.
        """
        try:
            return stage()
        except Cancelled:
            raise
        except ended as error:
            reason = str(error)
        except Exception as error:
            reason = failure(error)
            logger.info("could not %s", do, exc_info=True)
        self._notes.append(f"Could not {do}: {reason}.")
        return otherwise
