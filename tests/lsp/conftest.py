from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import gzip
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec, TextDocument

from skyline.report import protocol
from skyline.trace import store
from skyline.trace.profile import Profile

WAIT_S = 60
BRIEF = Path(__file__).resolve().parents[1] / "brief_measurements.py"

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 256)
        self.second = nn.Linear(256, 4)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return self.second(hidden)
"""

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from model import Net

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 4, (4096,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(100):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
"""


class Editor:
    """A client that behaves as an editor does: it holds documents, takes edits and tells of them."""

    def __init__(self, servers: Any = None) -> None:
        self.servers = servers
        self.client = pytest_lsp.LanguageClient(converter_factory=_plain_results)
        pytest_lsp.client.register_lsp_features(self.client)
        self.documents: dict[str, TextDocument] = {}
        self.changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.measuring: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.code: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.tuning: list[dict[str, Any]] = []
        self.labels: list[str | None] = []
        self.refreshed = {"lens": 0, "hint": 0}
        self.registered: list[types.Registration] = []
        self.offered: list[types.WorkspaceEdit] = []
        self.takes_edits = True
        self.questions: list[types.ShowMessageRequestParams] = []
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """The button that is pressed for every question, None where it is closed; without a result: nobody looks."""

        @self.client.feature(protocol.PROFILE_CHANGED)
        def profile_changed(params: dict[str, Any]) -> None:
            self.changes.put_nowait(params)

        @self.client.feature(protocol.MEASURING)
        def measuring(params: dict[str, Any]) -> None:
            self.measuring.put_nowait(params)

        @self.client.feature(protocol.CODE_CHANGED)
        def code_changed(params: dict[str, Any]) -> None:
            self.code.put_nowait(params)

        @self.client.feature(protocol.TUNING)
        def tuning(params: dict[str, Any]) -> None:
            self.tuning.append(params)

        @self.client.feature(types.WORKSPACE_APPLY_EDIT)
        def apply_edit(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            self.labels.append(params.label)
            self.offered.append(params.edit)
            return self._apply(params.edit) if self.takes_edits else types.ApplyWorkspaceEditResult(False)

        @self.client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
        async def show_question(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
            self.questions.append(params)
            pressed = await asyncio.shield(self.answer)
            return next((action for action in params.actions or () if action.title == pressed), None)

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registered += params.registrations

        @self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh_lenses(params: None) -> None:
            self.refreshed["lens"] += 1

        @self.client.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
        def refresh_hints(params: None) -> None:
            self.refreshed["hint"] += 1

    async def start(
        self,
        root: Path,
        settings: dict[str, Any] | None = None,
        *,
        options: dict[str, Any] | None = None,
        capabilities: types.ClientCapabilities | None = None,
    ) -> types.InitializeResult:
        self.client.set_configuration({"skyline": settings or {}})
        with self.servers.in_place_of_programs() if self.servers is not None else contextlib.nullcontext():
            await self.client.start_io(sys.executable, str(BRIEF), "lsp")
        return await self.client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities or client_capabilities(),
                initialization_options=options,
                workspace_folders=[types.WorkspaceFolder(uri=root.as_uri(), name=root.name)],
            )
        )

    @property
    def process(self) -> psutil.Process:
        assert self.client._server is not None
        return psutil.Process(self.client._server.pid)

    def runs(self) -> list[psutil.Process]:
        """The processes of scripts: all below the server but those that only wait, with PyTorch imported."""
        found: list[psutil.Process] = []
        for process in self.process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() != "skyline-warm":
                    found.append(process)
        return found

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        text = path.read_bytes().decode() if text is None else text
        self.documents[uri] = TextDocument(
            uri, text, version=1, sync_kind=types.TextDocumentSyncKind.Full, position_codec=PositionCodec()
        )
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        document = self.documents[uri]
        version = (document.version or 0) + 1
        self.documents[uri] = TextDocument(uri, text, version=version, position_codec=PositionCodec())
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=uri, version=version),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    def save(self, path: Path, text: str, reason: types.TextDocumentSaveReason | None = None) -> None:
        """Write a file as editors do, moved into place, and say so; with a reason, say why before."""
        document = types.TextDocumentIdentifier(path.as_uri())
        if reason is not None:
            self.client.text_document_will_save(types.WillSaveTextDocumentParams(document, reason))
        new = path.with_name(path.name + ".new")
        new.write_text(text)
        new.replace(path)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    def text(self, uri: str) -> str:
        return self.documents[uri].source

    async def ask(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.client.protocol.send_request_async(method, params), WAIT_S)

    async def run(self, command: str, *arguments: Any) -> Any:
        params = types.ExecuteCommandParams(command=command, arguments=list(arguments))
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), WAIT_S)

    async def next_change(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next profileChanged that fits; those that do not are dropped."""

        async def search() -> dict[str, Any]:
            while not wanted(change := await self.changes.get()):
                pass
            return change

        return await asyncio.wait_for(search(), WAIT_S)

    async def next_code(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next codeChanged that fits; those that do not are dropped."""

        async def search() -> dict[str, Any]:
            while not wanted(code := await self.code.get()):
                pass
            return code

        return await asyncio.wait_for(search(), WAIT_S)

    async def lenses(self, uri: str) -> list[str]:
        """Titles of the lenses, in the order of their lines."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        found = await self.client.text_document_code_lens_async(params) or []
        return [
            lens.command.title
            for lens in sorted(found, key=lambda lens: lens.range.start.line)
            if lens.command
        ]

    async def hints(self, uri: str) -> dict[int, str]:
        """Labels by line, counted from 0."""
        everything = types.Range(types.Position(0, 0), types.Position(10_000, 0))
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), everything)
        found = await self.client.text_document_inlay_hint_async(params) or []
        return {hint.position.line: str(hint.label) for hint in found}

    async def hover(self, uri: str, line: int) -> str:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, 4))
        found = await self.client.text_document_hover_async(params)
        return found.contents.value if found and isinstance(found.contents, types.MarkupContent) else ""

    async def fixes(self, uri: str, line: int) -> list[types.CodeAction]:
        return await self.actions(uri, line, types.CodeActionKind.QuickFix)

    async def refactorings(self, uri: str, line: int) -> list[types.CodeAction]:
        return await self.actions(uri, line, types.CodeActionKind.Refactor)

    async def actions(self, uri: str, line: int, *only: types.CodeActionKind) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext([], only=list(only) or None)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        found = await self.client.text_document_code_action_async(params) or []
        return [action for action in found if isinstance(action, types.CodeAction)]

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return await self.client.code_action_resolve_async(action)

    def progress(self) -> list[list[Any]]:
        """The values of each progress bar, in order."""
        return [list(values) for values in self.client.progress_reports.values()]

    def idle(self) -> bool:
        """True if there was a progress bar, and none is left."""
        return bool(bars := self.progress()) and all(bar and bar[-1].kind == "end" for bar in bars)

    async def until(self, condition: Callable[[], bool]) -> None:
        async def poll() -> None:
            while not condition():
                await asyncio.sleep(0.02)

        await asyncio.wait_for(poll(), WAIT_S)

    async def close(self) -> None:
        if self.client._server is not None and self.client._server.returncode is None:
            # The server may be about to die of what the test did to it.
            with contextlib.suppress(RuntimeError):
                await asyncio.wait_for(self.client.shutdown_session(), WAIT_S)
        await self.client.stop()

    def _apply(self, edit: types.WorkspaceEdit) -> types.ApplyWorkspaceEditResult:
        for change in edit.document_changes or ():
            assert isinstance(change, types.TextDocumentEdit)
            uri, version = change.text_document.uri, change.text_document.version
            document = self.documents.get(uri)
            on_disk = Path(to_fs_path(uri) or "")
            if document is None:
                assert version is None, "only open documents have one"
                document = TextDocument(uri, on_disk.read_bytes().decode(), position_codec=PositionCodec())
            elif version != document.version:
                return types.ApplyWorkspaceEditResult(False, failure_reason="the document changed meanwhile")
            text = document.source
            places = [part for part in change.edits if isinstance(part, types.TextEdit)]
            for part in sorted(places, key=lambda part: (part.range.start.line, part.range.start.character))[
                ::-1
            ]:
                start = document.offset_at_position(part.range.start)
                end = document.offset_at_position(part.range.end)
                text = text[:start] + part.new_text + text[end:]
            if uri in self.documents:
                self.change(uri, text)
            else:
                on_disk.write_bytes(text.encode())
        return types.ApplyWorkspaceEditResult(True)


@functools.cache
def _plain_results() -> Any:
    """One converter for all clients: it holds nothing of a client, and its functions take a while to make."""
    converter = default_converter()
    for message in (JsonRPCRequestMessage, JsonRPCResponseMessage, JsonRPCNotification):
        converter.register_structure_hook(message, lambda data, kind: kind(**data))
    return converter


def client_capabilities() -> types.ClientCapabilities:
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
        text_document=types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(
                disabled_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
            )
        ),
        window=types.WindowClientCapabilities(
            work_done_progress=True, show_document=types.ShowDocumentClientCapabilities(support=True)
        ),
        workspace=types.WorkspaceClientCapabilities(
            apply_edit=True,
            configuration=True,
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
            code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
            inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=True),
        ),
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a small training script in two files."""
    root = tmp_path.resolve()
    (root / "train.py").write_text(TRAIN)
    (root / "model.py").write_text(MODEL)
    return root


@pytest.fixture
def capabilities() -> types.ClientCapabilities:
    """Capabilities of the client of these tests; a test may remove some of them or add to them."""
    return client_capabilities()


RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"


def save_recorded(root: Path, *, id: str = "", created: str = "") -> Path:
    """The recorded profile as if it had been made of ``train.py`` in a folder, which is written too."""
    text = gzip.decompress(RECORDED.read_bytes()).decode().replace("/tmp/project", str(root))
    profile = msgspec.json.decode(text, type=Profile)
    changes = {name: value for name, value in (("id", id), ("created", created)) if value}
    profile = dataclasses.replace(profile, **changes)
    if not (root / "train.py").exists():
        (root / "train.py").write_text(profile.sources[0].text)
    return store.save(profile)


@pytest.fixture
def save() -> Callable[..., Path]:
    """Saves the recorded profile in a folder."""
    return save_recorded


@pytest.fixture
def profiled(tmp_path: Path) -> Path:
    """A folder with a training script and its saved profile."""
    root = tmp_path.resolve()
    save_recorded(root)
    return root


StartEditor = Callable[..., Awaitable[Editor]]


@pytest.fixture
async def start_editor(tmp_path: Path, forked_servers: Any) -> AsyncIterator[StartEditor]:
    """Starts editors on the test's folder; each has a server process of its own, ended with the test."""
    editors: list[Editor] = []

    async def start(settings: dict[str, Any] | None = None, **more: Any) -> Editor:
        editor = Editor(forked_servers)
        editors.append(editor)
        await editor.start(tmp_path.resolve(), settings, **more)
        return editor

    yield start
    for editor in editors:
        await editor.close()


@pytest.fixture
async def editor(project: Path, start_editor: StartEditor) -> Editor:
    return await start_editor()
