"""A session of random, reordered, repeated and malformed messages with one server, and the rules that must hold."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_json
from fuzz_client import Broken, Client, encoded, frame, server_command
from fuzz_documents import Held, change, position
from fuzzed_server import STATE

WAIT_S, LOOK_S = 60.0, 0.2
KEPT_BACK = ("shutdown", "exit")
_HINT = re.compile(r"(~ )?[\d.,]+ (µs|ms|s)")
QUESTIONS = ("amp=bf16", "fused_optimizer", "pin_memory", "num_workers=2", "nonsense", "batch_size=32", "")
COMMANDS = ("skyline.profile", "skyline.cancel", "skyline.showReport", "skyline.export", "skyline.nonsense")
ASKS = ("simulate", "preview", "apply", "revert", "profile", "whatifs", "best", "devices", "verify")


class Session:
    """``uris`` are the documents whose texts are compared. ``stray`` are documents that may be changed in any way."""

    def __init__(self, root: Path, seed: int, uris: list[str], stray: list[str], log: Path) -> None:
        self.chance = random.Random(seed)
        self.uris, self.stray = uris, stray
        self.held = Held(self.chance.choice(("utf-8", "utf-16", "utf-32")))
        self.client = Client(server_command(), root, log)
        self.sent: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self._number = 0
        self._asked: dict[int | str, tuple[str, str | None]] = {}
        self._late: list[Callable[[], None]] = []
        self._introduce(root)

    def _introduce(self, root: Path) -> None:
        able = {
            "general": {"positionEncodings": [self.held.encoding]},
            "textDocument": {
                "codeAction": {"disabledSupport": True, "resolveSupport": {"properties": ["edit"]}}
            },
            "window": {"workDoneProgress": True, "showDocument": {"support": True}},
            "workspace": {
                "applyEdit": True,
                "configuration": self.chance.random() < 0.7,
                "workspaceEdit": {"documentChanges": True},
                "codeLens": {"refreshSupport": True},
                "inlayHint": {"refreshSupport": True},
                "didChangeConfiguration": {"dynamicRegistration": True},
            },
        }
        # Before `initialize`, every request must be refused.
        self._request("textDocument/hover", {})
        self.client.send(self._notification("textDocument/didOpen", {}))
        options = self._settings()
        params = {
            "processId": None,
            "rootUri": root.as_uri(),
            "capabilities": able,
            "initializationOptions": options,
        }
        self._request("initialize", params)
        self.client.send(self._notification("initialized", {}))
        self.settle()

    def _settings(self) -> Any:
        if self.chance.random() < 0.2:
            return fuzz_json.value(self.chance)
        # There is no such interpreter: the code around a run is tested without the time of a run.
        return {
            "interpreter": "/nowhere/python",
            "profile": {"onSave": self.chance.choice(("never", "always", 5))},
        }

    def step(self) -> None:
        """Send one message, or the pieces of a broken one."""
        chance = self.chance
        kind = chance.random()
        uri = chance.choice(self.uris)
        if kind < 0.30:
            self._change(uri)
        elif kind < 0.36:
            self._open(uri)
            if chance.random() < 0.3:
                # An editor also sends requests right after opening.
                for _ in range(3):
                    self._ask(uri)
        elif kind < 0.39:
            self._tell("textDocument/didClose", {"textDocument": {"uri": uri}})
            self.held.closed(uri)
        elif kind < 0.41:
            self._tell("textDocument/didSave", {"textDocument": {"uri": uri}})
        elif kind < 0.66:
            self._ask(uri)
        elif kind < 0.72:
            self._tell_other()
        elif kind < 0.90:
            self._spoiled()
        else:
            self._noise()

    def settle(self, *, collect: bool = False) -> dict[str, Any]:
        """Wait until everything is answered, and compare the server's state with the sent messages."""
        self._ends_of_requests()
        probe = self._request(STATE, {"uris": self.uris, "collect": collect}, compared=False)
        state: dict[str, Any] = {}
        # Count looks instead of time: if both processes are paused for a while, that is not an error.
        patience = round(WAIT_S / LOOK_S)
        while self.client.waiting or self._late or not state:
            if patience == 0:
                raise Broken(
                    f"no answer in {WAIT_S:.0f} s to {[self._asked[one] for one in self.client.waiting]}"
                )
            message = self.client.next(LOOK_S)
            if message is None:
                patience -= 1
                self._do_late()
            elif message.get("id") == probe and "result" in message:
                self.client.answered(message)
                state = message["result"]
            else:
                self._take(message)
        self._asked.clear()
        for uri in self.uris:
            document = self.held.open.get(uri)
            ours = None if document is None else [document.version, document.text.removeprefix("\ufeff")]
            theirs = state["documents"][uri]
            if theirs is not None:
                theirs[1] = theirs[1].removeprefix("\ufeff")
            if ours != theirs:
                raise Broken(f"{uri} reads {ours!r:.2000} here and {theirs!r:.2000} in the server")
        return state

    def pump(self) -> None:
        """Handle the messages that the server has sent so far."""
        while (message := self.client.next(0.0)) is not None:
            self._take(message)

    # Messages to the server.

    def _change(self, uri: str) -> None:
        chance = self.chance
        document = self.held.open.get(uri)
        text, version = (document.text, document.version) if document else ("", 0)
        version += chance.choice((1, 1, 1, 1, 3, 0, -1, -5))
        changes: list[dict[str, Any]] = []
        for _ in range(chance.choice((1, 1, 1, 2, 3, 0))):
            changes.append(change(chance, self.held, text))
            text = changes[-1]["text"]
        params = {"textDocument": {"uri": uri, "version": version}, "contentChanges": changes}
        for _ in range(2 if chance.random() < 0.03 else 1):
            self._tell("textDocument/didChange", params)
            self.held.changed(uri, version, changes)

    def _open(self, uri: str, text: str | None = None) -> None:
        chance = self.chance
        if text is None:
            text = (
                self._on_disk(uri) if chance.random() < 0.8 else change(chance, self.held, "x = 1\n")["text"]
            )
        version = chance.choice((0, 1, 1, 7, -3))
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self._tell("textDocument/didOpen", {"textDocument": item})
        self.held.opened(uri, version, text)

    def _on_disk(self, uri: str) -> str:
        path = Path(uri.removeprefix("file://"))
        try:
            return path.read_bytes().decode("utf-8", "replace")
        except OSError:
            return "import torch\n"

    def _ask(self, uri: str) -> None:
        method, params = self._question(uri)
        known = self._request(method, params, uri)
        if self.chance.random() < 0.1:
            which = known if self.chance.random() < 0.7 else self.chance.choice((0, "x", self._number + 5))
            self._tell("$/cancelRequest", {"id": which})

    def _question(self, uri: str) -> tuple[str, Any]:
        chance = self.chance
        document = self.held.open.get(uri)
        text = document.text if document else "x = 1\n"
        place = position(chance, self.held, text)
        there = {"start": place, "end": position(chance, self.held, text)}
        named = {"textDocument": {"uri": uri}}
        kind = chance.randrange(9)
        if kind == 0:
            return "textDocument/codeLens", named
        if kind in (1, 2):
            everything = {"start": {"line": 0, "character": 0}, "end": {"line": 2**31 - 1, "character": 0}}
            return "textDocument/inlayHint", {**named, "range": chance.choice((there, everything))}
        if kind == 3:
            return "textDocument/hover", {**named, "position": place}
        if kind == 4:
            context = {
                "diagnostics": [],
                "only": chance.choice((None, ["quickfix"], ["refactor"], ["nonsense"])),
            }
            return "textDocument/codeAction", {**named, "range": there, "context": context}
        if kind == 5:
            data = chance.choice(({"uri": uri, "whatif": chance.choice(QUESTIONS)}, fuzz_json.value(chance)))
            return "codeAction/resolve", {"title": "x", "data": data}
        if kind == 6:
            options = chance.choice(
                (None, {"steps": 0}, {"format": "json"}, {"gpu": "no such"}, fuzz_json.value(chance))
            )
            arguments = [uri] if options is None else [uri, options]
            return "workspace/executeCommand", {"command": chance.choice(COMMANDS), "arguments": arguments}
        asked: dict[str, Any] = {"uri": uri}
        if chance.random() < 0.8:
            size = chance.choice((None, 1, 8, 64, 0, -4, 10**9, 10**30))
            asked |= {"batchSize": size, "whatifs": chance.sample(QUESTIONS, chance.randrange(3))}
        weights = (8, 4, 4, 2, 2, 2, 1, 1, 1)
        return f"skyline/{chance.choices(ASKS, weights)[0]}", asked

    def _tell_other(self) -> None:
        chance = self.chance
        kind = chance.randrange(6)
        if kind == 0:
            changes = [
                {"uri": chance.choice(self.uris + self.stray), "type": chance.randint(1, 3)} for _ in range(2)
            ]
            self._tell("workspace/didChangeWatchedFiles", {"changes": changes})
        elif kind == 1:
            self._tell("workspace/didChangeConfiguration", {"settings": {"skyline": self._settings()}})
        elif kind == 2:
            event = {"added": [{"uri": chance.choice(self.stray), "name": "x"}], "removed": []}
            event["removed"] = (
                [{"uri": chance.choice(self.stray), "name": "x"}] if chance.random() < 0.5 else []
            )
            self._tell("workspace/didChangeWorkspaceFolders", {"event": event})
        elif kind == 3:
            self._tell("window/workDoneProgress/cancel", {"token": chance.choice((1, "x", "skyline/1"))})
        elif kind == 4:
            self._tell("$/setTrace", {"value": chance.choice(("off", "verbose"))})
        else:
            self._written()

    def _written(self) -> None:
        """Another program writes a file."""
        path = Path(self.chance.choice(self.uris).removeprefix("file://"))
        if path.name != "missing.py":
            path.write_bytes(
                change(self.chance, self.held, self._on_disk(path.as_uri()))["text"].encode(
                    "utf-8", "replace"
                )
            )

    def _spoiled(self) -> None:
        """Send a message about a stray document with one wrong part, or an unknown message."""
        chance = self.chance
        uri = chance.choice(self.stray)
        if chance.random() < 0.4:
            item = {"uri": uri, "languageId": "python", "version": 1, "text": "x = 1\n"}
            changes = [change(chance, self.held, "x = 1\n")]
            method, params = chance.choice(
                (
                    ("textDocument/didOpen", {"textDocument": item}),
                    ("textDocument/didChange", {"textDocument": item, "contentChanges": changes}),
                    ("textDocument/didClose", {"textDocument": item}),
                    ("notebookDocument/didOpen", {"notebookDocument": item, "cellTextDocuments": [item]}),
                    ("notebookDocument/didChange", {"notebookDocument": item, "change": {}}),
                    ("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": []}}),
                    ("$/cancelRequest", {"id": 1}),
                    ("nonsense/notification", {}),
                )
            )
            self._tell(method, fuzz_json.spoiled(chance, params) if chance.random() < 0.7 else params)
            return
        method, params = self._question(uri)
        if chance.random() < 0.1:
            method = chance.choice(
                ("nonsense/request", "initialize", "textDocument/didSave", "", "window/showMessage")
            )
        self._request(method, fuzz_json.spoiled(chance, params))

    def _noise(self) -> None:
        """Send bytes that are no message, or a message in an odd frame. The server must understand the next message."""
        chance = self.chance
        kind = chance.randrange(10)
        body = encoded(self._notification("nonsense/notification", {"text": "x\r\n"}))
        junk = bytes(chance.randrange(256) for _ in range(chance.randrange(60)))
        self.sent["noise"] += 1
        if kind == 0:
            self.client.write(junk + b"\r\n")
        elif kind == 1:
            self.client.write(b"Content-Length: %d\r\n\r\n%s" % (len(body) - chance.randint(1, 20), body))
        elif kind == 2:
            self.client.write(b"Content-Length: nonsense\r\n\r\n" + body)
        elif kind == 3:
            self.client.write(b"Content-Length: 99999999999999\r\n\r\n" + body)
        elif kind == 4:
            self.client.write(
                frame(chance.choice((junk or b"x", body[:-5], b"[" * 100_000, b"[]", b"17", b'""', b"\xff")))
            )
        elif kind == 5:
            message = fuzz_json.spoiled(chance, {"jsonrpc": "2.0", "id": "ours", "result": {"x": 1}})
            self.client.send(message | {"id": "ours", "method": 5})
        elif kind == 6:
            self.client.send(
                {"jsonrpc": "2.0", "id": chance.choice((None, 1.5, [], {}, True)), "method": "x"}
            )
        elif kind == 7:
            self.client.send(
                {
                    "jsonrpc": "2.0",
                    "id": chance.choice((self._number, "x")),
                    "result": fuzz_json.value(chance),
                }
            )
        elif kind == 8:
            name = chance.choice((b"content-length", b"CONTENT-LENGTH"))
            self.client.write(b"Content-Type: x\r\n%s: %d\r\nX: y\r\n\r\n%s" % (name, len(body), body))
        else:
            whole = frame(body)
            cut = chance.randrange(len(whole))
            self.client.write(whole[:cut])
            self.client.write(whole[cut:])

    def _notification(self, method: str, params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": method, "params": params}

    def _tell(self, method: str, params: Any) -> None:
        self.sent[method or "no name"] += 1
        self.client.send(self._notification(method, params))

    def _request(
        self, method: str, params: Any, uri: str | None = None, *, compared: bool = True
    ) -> int | str:
        """Send a request, sometimes with an id that is in use."""
        if compared and self._asked and self.chance.random() < 0.03:
            msg_id = self.chance.choice(list(self._asked))
        else:
            self._number += 1
            msg_id = self._number if self.chance.random() < 0.7 else f"id {self._number}"
        message = {"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params}
        self.sent[method or "no name"] += 1
        if _is_json(message):
            once = msg_id not in self.client.waiting
            document = self.held.open.get(uri or "")
            # If a file is open under two names, the server answers for the text that was changed last.
            text = document.text if document and not self._doubled() else None
            self._asked[msg_id] = (method if once and compared else "", text)
            self.client.waiting[msg_id] += 1
        self.client.send(message)
        return msg_id

    def _ends_of_requests(self) -> None:
        for msg_id, (method, _) in self._asked.items():
            if msg_id in self.client.waiting and method in (
                "skyline/devices",
                "skyline/verify",
                "skyline/best",
            ):
                self._tell("$/cancelRequest", {"id": msg_id})

    # Messages from the server.

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:
                self._asked_of_us(message)
            return
        self.client.answered(message)
        method, text = self._asked.get(message.get("id") or 0, ("", None))
        self.answers["refused" if "error" in message else "answered"] += 1
        if message.get("result"):
            self.answers[method] += 1
        if message.get("result") and text is not None:
            for place in _places(method, message["result"]):
                if not self.held.inside(text, place):
                    raise Broken(f"{method} answers {place}, which is not in {text!r:.3000}")

    def _doubled(self) -> bool:
        files = [Path(uri.removeprefix("file://")).resolve() for uri in self.held.open]
        return len(files) != len(set(files))

    def _asked_of_us(self, message: dict[str, Any]) -> None:
        """Answer a request of the server: as usual, with an error, or twice. Some answers are sent later."""
        chance = self.chance
        if message["method"] == "workspace/applyEdit":
            result: Any = {"applied": self._applied(message["params"]["edit"])}
        elif message["method"] == "workspace/configuration":
            result = [self._settings()]
        else:
            result = {"success": True} if message["method"] == "window/showDocument" else None
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        kind = chance.random()
        if message["method"] != "workspace/applyEdit" and kind < 0.1:
            answer = {"jsonrpc": "2.0", "id": message["id"]}
            answer |= (
                {"error": {"code": -32600, "message": "no"}}
                if kind < 0.05
                else {"result": fuzz_json.value(chance)}
            )

        if not _is_json(answer):
            answer["result"] = 5

        def send() -> None:
            for _ in range(2 if kind > 0.95 else 1):
                self.client.send(answer)

        if chance.random() < 0.2:
            self._late.append(send)
        else:
            send()

    def _do_late(self) -> None:
        late, self._late = self._late, []
        for send in late:
            send()

    def _applied(self, edit: dict[str, Any]) -> bool:
        """Apply the edits as an editor does: all of them, or none if a document has another version."""
        changes = edit["documentChanges"]
        for part in changes:
            document = self.held.open.get(part["textDocument"]["uri"])
            if document is None or document.version != part["textDocument"]["version"]:
                return False
        for part in changes:
            uri = part["textDocument"]["uri"]
            document = self.held.open[uri]
            places = sorted(
                part["edits"],
                key=lambda one: (one["range"]["start"]["line"], one["range"]["start"]["character"]),
            )
            text = document.text
            for one in reversed(places):
                if not all(self.held.inside(text, one["range"][end]) for end in ("start", "end")):
                    raise Broken(f"an edit outside its document: {one}")
                text = self.held.replaced(text, {"range": one["range"], "text": one["newText"]})
            version = document.version + 1
            self._tell(
                "textDocument/didChange",
                {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]},
            )
            self.held.changed(uri, version, [{"text": text}])
        return True


def _is_json(message: Any) -> bool:
    """True if all its numbers exist in JSON. The server refuses other messages without reading their id."""
    try:
        json.dumps(message, allow_nan=False)
    except ValueError:
        return False
    return True


def _places(method: str, result: Any) -> list[dict[str, int]]:
    if method == "textDocument/codeLens":
        return [lens["range"]["start"] for lens in result]
    if method == "textDocument/inlayHint":
        for hint in result:
            if not _HINT.fullmatch(_label(hint["label"])):
                raise Broken(f"no time: {hint['label']}")
        return [hint["position"] for hint in result]
    if method == "textDocument/hover":
        return [result["range"]["start"], result["range"]["end"]]
    return []


def _label(label: Any) -> str:
    return label if isinstance(label, str) else "".join(part["value"] for part in label)
