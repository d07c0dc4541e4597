"""The ledger as the rest of Skyline uses it: predictions written down, outcomes added, entries found again."""

# What peewee's queries give is left open by its type stubs.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyline.errors import UsageError
from skyline.ledger.entry import LedgerEntry, same_script
from skyline.ledger.location import ledger_path

if TYPE_CHECKING:
    from peewee import SqliteDatabase


class LedgerUnusable(UsageError):
    """The file is damaged, locked, of a later version, or lies where nothing can be written."""


class Ledger:
    """The file at ``path``, by default the person's own. It is opened for each action and made by the first write.

    Every method raises LedgerUnusable where the file cannot be used, with the reason and the next step.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or ledger_path()

    def write(self, entry: LedgerEntry) -> None:
        """Add an entry, or put it in the place of the one with its id."""
        from skyline.ledger.table import Row, to_row

        with self._open(), _reading_errors(self.path):
            Row.replace(**to_row(entry)).execute()

    def entries(self, *, script: str | None = None, whatif: str | None = None) -> tuple[LedgerEntry, ...]:
        """Oldest first; those of one script, or about one what-if, singly or together with others."""
        if not self.path.exists():
            return ()
        from skyline.ledger.table import Row, from_row

        with self._open(readable_only=True), _reading_errors(self.path):
            rows: list[Any] = list(Row.select().order_by(Row.created, Row.id).dicts())
        try:
            found = [from_row(row) for row in rows]
        except (ValueError, TypeError) as error:
            raise LedgerUnusable(f"The ledger {self.path} holds what is no entry: {error}") from error
        return tuple(
            entry
            for entry in found
            if (script is None or same_script(script, entry.script))
            and (whatif is None or whatif in entry.whatif.split("+"))
        )

    def forget(self, ids: tuple[str, ...]) -> int:
        """Remove entries for good; how many there were."""
        if not self.path.exists():
            return 0
        from skyline.ledger.table import Row

        with self._open() as database, _reading_errors(self.path), database.atomic():
            return sum(int(Row.delete().where(Row.id == each).execute()) for each in ids)

    @contextmanager
    def _open(self, *, readable_only: bool = False) -> Generator[SqliteDatabase]:
        from skyline.ledger.table import Row, connect

        with _reading_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = connect(self.path, readable_only=readable_only)
        try:
            with database.bind_ctx([Row]):
                yield database
        finally:
            database.close()


@contextmanager
def _reading_errors(path: Path) -> Generator[None]:
    """What goes wrong with a file of SQLite's, in words."""
    import peewee

    try:
        yield
    except UsageError as error:
        raise LedgerUnusable(f"{error.message}: {path}", hint=error.hint) from error
    except OSError as error:
        raise LedgerUnusable(
            f"The ledger {path} cannot be written: {error.strerror or error}",
            hint="Name another folder for Skyline's data with SKYLINE_DATA_DIR.",
        ) from error
    except peewee.PeeweeException as error:
        words = str(error)
        if "locked" in words:
            hint = "Another program holds it; try again in a moment."
        elif "readonly" in words or "unable to open" in words:
            hint = "Name another folder for Skyline's data with SKYLINE_DATA_DIR."
        else:
            hint = f"Move it away, and a new one is begun: mv {path} {path}.damaged"
        raise LedgerUnusable(f"The ledger {path} cannot be used: {words}", hint=hint) from error
