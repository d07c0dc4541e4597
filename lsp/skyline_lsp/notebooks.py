"""The client's notebooks, and the translation of messages between cells and the script that the cells form.

In the protocol each cell is a separate document. This module turns requests about a cell into requests about the
notebook with lines of its script, and turns answers and notifications back to cells. No other module handles cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skyline.source.cells import script_of

Json = dict[str, Any]


@dataclass(slots=True)
class Cell:
    """A cell in the client's current version."""

    uri: str
    version: int
    text: str
    code: bool

    @property
    def runs(self) -> bool:
        """True for a code cell that is not blank."""
        return self.code and bool(self.text.strip())


@dataclass(slots=True)
class OpenNotebook:
    """An open notebook of the client."""

    uri: str
    version: int
    cells: list[Cell] = field(default_factory=list[Cell])

    @property
    def script(self) -> str:
        """The code of the cells as one script, equal to that of a notebook file with the same content."""
        return script_of([cell.text for cell in self.cells if cell.runs])

    def placed(self) -> Iterator[tuple[Cell, int, int]]:
        """The cells that run, each with its first line in the script and the line after its last, counted from 0."""
        end = 0
        for cell in self.cells:
            if cell.runs:
                first = end + 1  # after the heading
                end = first + cell.text.count("\n") + 1
                yield cell, first, end

    def first_line(self, uri: str) -> int:
        """The first line of a cell in the script. For a cell that does not run, a line after the end of the script."""
        places = list(self.placed())
        return next(
            (first for cell, first, _ in places if cell.uri == uri), places[-1][2] + 1 if places else 1
        )


class Notebooks:
    """The open notebooks of a connection, and the requests about cells that are not answered yet."""

    def __init__(self) -> None:
        self._open: dict[str, OpenNotebook] = {}
        self._asked: dict[int | str, tuple[OpenNotebook, str]] = {}

    def opened(self, notebook: OpenNotebook) -> None:
        """Add a notebook."""
        self._open[notebook.uri] = notebook

    def closed(self, uri: str) -> None:
        """Remove a notebook."""
        self._open.pop(uri, None)

    def at(self, uri: str) -> OpenNotebook | None:
        """The open notebook with this URI."""
        return self._open.get(uri)

    def incoming(self, message: Json) -> Json:
        """A message of the client, changed to be about the notebook if it is about a cell."""
        params = message.get("params")
        if not self._open or not isinstance(params, dict):
            return message
        made: Json = dict(params)
        document, data = made.get("textDocument"), made.get("data")
        if isinstance(document, dict) and (found := self._of(document.get("uri"))):
            notebook, cell = found
            made = _moved(
                {**made, "textDocument": {**document, "uri": notebook.uri}}, notebook.first_line(cell)
            )
        elif isinstance(data, dict) and (found := self._of(data.get("cell"))):
            # A request to resolve an item.
            notebook, cell = found
            rest = {key: value for key, value in data.items() if key != "cell"}
            made = _moved({**made, "data": rest}, notebook.first_line(cell))
        else:
            found = None
            if (of := self._of(made.get("uri"))) is not None:
                made["uri"] = of[0].uri
            if isinstance(made.get("arguments"), list):
                made["arguments"] = [
                    of[0].uri if (of := self._of(argument)) else argument for argument in made["arguments"]
                ]
        if found and isinstance(message.get("id"), int | str):
            self._asked[message["id"]] = found
        return {**message, "params": made}

    def outgoing(self, message: Json) -> list[Json]:
        """The messages to send to the client in place of a message of the server."""
        asked = self._asked.pop(message.get("id", ""), None) if "method" not in message else None
        if asked is not None and "result" in message:
            return [{**message, "result": self._answer(message["result"], *asked)}]
        params: Any = message.get("params")
        if not self._open or not isinstance(params, dict):
            return [message]
        if message.get("method") == "textDocument/publishDiagnostics" and params.get("uri") in self._open:
            return [{**message, "params": part} for part in self._diagnostics(params)]
        if message.get("method") == "workspace/applyEdit" and isinstance(params.get("edit"), dict):
            return [{**message, "params": {**params, "edit": self._edit(params["edit"])}}]
        return [message]

    @property
    def any_open(self) -> bool:
        """True if messages may need a translation."""
        return bool(self._open or self._asked)

    def _of(self, uri: object) -> tuple[OpenNotebook, str] | None:
        """The notebook that contains a cell, with the URI of the cell. None if there is none."""
        for notebook in self._open.values():
            for cell in notebook.cells:
                if cell.uri == uri:
                    return notebook, cell.uri
        return None

    def _answer(self, result: Any, notebook: OpenNotebook, uri: str) -> Any:
        """An answer with lines counted in the cell. Items of a list that are in other cells are left out."""
        first, end = next(
            ((first, end) for cell, first, end in notebook.placed() if cell.uri == uri),
            (notebook.first_line(uri), 0),
        )
        if isinstance(result, list):
            items = [item for item in result if first <= _line_of(item, first) < max(end, first + 1)]
            return [self._item(item, first, uri) for item in items]
        return self._item(result, first, uri) if isinstance(result, dict) else result

    def _item(self, item: Any, first: int, uri: str) -> Any:
        if not isinstance(item, dict):
            return item
        edit = item.get("edit")
        made = _moved({key: value for key, value in item.items() if key != "edit"}, -first)
        if isinstance(edit, dict):
            made["edit"] = self._edit(edit)
        if isinstance(made.get("data"), dict):
            made["data"] = {**made["data"], "cell": uri}
        return made

    def _diagnostics(self, params: Json) -> Iterator[Json]:
        notebook = self._open[params["uri"]]
        places = {cell.uri: (first, end) for cell, first, end in notebook.placed()}
        for cell in notebook.cells:
            first, end = places.get(cell.uri, (0, 0))
            own = [one for one in params["diagnostics"] if first <= _line_of(one, -1) < end]
            if cell.code:
                told = [
                    self._related(_moved({**one, "relatedInformation": None}, -first), one) for one in own
                ]
                yield {"uri": cell.uri, "diagnostics": told}

    def _related(self, diagnostic: Json, before: Json) -> Json:
        """A diagnostic with the places of its evidence, which may be in other cells and files."""
        del diagnostic["relatedInformation"]
        related = [
            {**one, "location": self._location(one["location"])}
            for one in before.get("relatedInformation") or ()
        ]
        return {**diagnostic, "relatedInformation": related} if related else diagnostic

    def _location(self, location: Json) -> Json:
        notebook = self._open.get(location["uri"])
        for cell, first, end in notebook.placed() if notebook else ():
            if first <= location["range"]["start"]["line"] < end:
                return {"uri": cell.uri, "range": _moved(location["range"], -first)}
        return location

    def _edit(self, edit: Json) -> Json:
        """A workspace edit in which edits of a notebook become edits of its cells."""
        made = dict(edit)
        if isinstance(edit.get("documentChanges"), list):
            made["documentChanges"] = [part for one in edit["documentChanges"] for part in self._parts(one)]
        if isinstance(edit.get("changes"), dict):
            made["changes"] = {}
            for uri, edits in edit["changes"].items():
                for part in self._parts({"textDocument": {"uri": uri}, "edits": edits}):
                    made["changes"][part["textDocument"]["uri"]] = part["edits"]
        return made

    def _parts(self, change: Json) -> Iterable[Json]:
        notebook = self._open.get(change.get("textDocument", {}).get("uri", ""))
        if notebook is None:
            return (change,)
        by_cell: dict[str, list[Json]] = {}
        versions: dict[str, int] = {}
        for edit in change["edits"]:
            cell, own = _cell_edit(notebook, edit)
            by_cell.setdefault(cell.uri, []).append(own)
            versions[cell.uri] = cell.version
        return [
            {"textDocument": {"uri": uri, "version": versions[uri]}, "edits": edits}
            for uri, edits in by_cell.items()
        ]


def _cell_edit(notebook: OpenNotebook, edit: Json) -> tuple[Cell, Json]:
    """An edit of the script as an edit of a cell. An edit before a heading goes to the end of the cell above it."""
    start, end = edit["range"]["start"], edit["range"]["end"]
    places = list(notebook.placed())
    cell, first, after = next((place for place in places if start["line"] <= place[2]), places[-1])
    last_line = cell.text.split("\n")[-1]
    finish = {"line": after - first - 1, "character": len(last_line.encode("utf-16-le")) // 2}

    def own(place: Json) -> Json:
        return finish if place["line"] >= after else {**place, "line": max(0, place["line"] - first)}

    text = edit["newText"]
    if start["line"] >= after:
        text = "\n" + text.removesuffix("\n")
    return cell, {**edit, "range": {"start": own(start), "end": own(end)}, "newText": text}


def _line_of(item: Any, otherwise: int) -> int:
    """The line of an item with a range or a position."""
    if not isinstance(item, dict):
        return otherwise
    place = item.get("position") or (item.get("range") or {}).get("start")
    return place["line"] if isinstance(place, dict) else otherwise


def _moved(value: Any, by: int) -> Any:
    """A JSON value with all its positions moved by ``by`` lines."""
    if isinstance(value, list):
        return [_moved(one, by) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"line", "character"} and isinstance(value["line"], int):
        return {**value, "line": max(0, value["line"] + by)}
    return {key: _moved(one, by) for key, one in value.items()}
