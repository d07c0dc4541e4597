"""Code actions: changes with a predicted benefit, offered at the lines that they would edit.

The cure of a finding is a quick fix at its line. Every applicable what-if that can be written is a refactoring at the
lines that it edits; the best of them are also offered at the training loop. A what-if that the code does not allow is
shown with its reason if the client supports disabled actions. At the batch size, other sizes are offered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lsprotocol import types

from skyline import units
from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Fit, fit
from skyline.report import basis, protocol
from skyline.report.schema import EstimateReport
from skyline.source.line_map import line_map
from skyline.source.text import SourceText, TextEdit
from skyline.whatif.question import BATCH_SIZE, Choice, Estimate, Question
from skyline_lsp import convert
from skyline_lsp.batch_size_place import batch_size_place
from skyline_lsp.changes import ApplicableChange
from skyline_lsp.curve_table import largest_that_fits, point_of
from skyline_lsp.features import diagnostics
from skyline_lsp.features.code_lens import headline_line
from skyline_lsp.features.diagnostics import PlacedFinding
from skyline_lsp.features.rewrite import edit_of, planned_edit
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import Prepared, ScriptState

QUICK_FIX, REFACTORING = (
    types.CodeActionKind.QuickFix.value,
    f"{types.CodeActionKind.RefactorRewrite.value}.skyline",
)
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.skyline"
_MOST_AT_LOOP = 10
_WORTH_TELLING = 0.01
"""Smallest change of peak memory that is shown, as a share of the peak."""
_MEANING = {
    "numerics": "Changes how numbers are rounded.",
    "convergence": "Changes how the model trains.",
    "model": "Trains a different model.",
}


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/codeAction``, and ``codeAction/resolve`` for edits that are computed on demand."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[QUICK_FIX, REFACTORING, FIX_ALL], resolve_provider=True),
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        only, uri, place = params.context.only, params.text_document.uri, params.range
        found: list[types.CodeAction] = []
        if not server.settings_at(convert.path_of(uri)).enable:
            return found
        if _wanted(QUICK_FIX, only):
            found += fixes(server, uri, place)
        if _wanted(REFACTORING, only):
            known = {action.title for action in found}
            found += [one for one in refactorings(server, uri, place) if one.title not in known]
        if _named(FIX_ALL, only):
            found += fix_all(server, uri)
        return found

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve(action: types.CodeAction) -> types.CodeAction:
        data: Any = action.data
        ours = isinstance(data, dict) and all(isinstance(data.get(key), str) for key in ("uri", "whatif"))
        state = server.state_of(data["uri"]) if ours else None
        if state is not None and action.edit is None:
            try:
                edit = planned_edit(server, state, _question(Choice.parse(data["whatif"])))
                action.edit = _annotated(server, edit, data.get("semantics", "exact"), action.title)
            except SkylineError as error:
                server.warn(str(error))
        return action


def fixes(server: SkylineServer, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
    """A fix for each finding in a range, if its cure can be written and is predicted to help."""
    path = convert.path_of(uri)
    for placed in diagnostics.placed_findings(server.scripts, server.texts):
        prepared = placed.state.prepared
        if prepared is None or placed.finding.file != path or not _covers(place, placed.line):
            continue
        settings = server.settings_at(path).diagnostics
        if not diagnostics.is_selected(placed.finding.code, settings):
            continue
        change = _cure(prepared, placed)
        action = change and _action(server, placed.state, _offer(placed.state, change), QUICK_FIX)
        if action:
            assert change is not None
            action.diagnostics = [
                diagnostics.of_finding(placed, server.workspace.position_codec, server.texts, settings)
            ]
            action.is_preferred = change.estimate.semantics == "exact"
            yield action


def refactorings(server: SkylineServer, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
    """The changes offered at a range: other batch sizes first, then what-ifs, the refused changes last."""
    path = convert.path_of(uri)
    text = server.texts.shown(path) if path else None
    if path is None or text is None:
        return
    for state in server.scripts.with_batch_size_in(path):
        yield from _refactorings(server, state, path, text, place)


def _refactorings(
    server: SkylineServer, state: ScriptState, path: str, text: SourceText, place: types.Range
) -> Iterator[types.CodeAction]:
    prepared = state.prepared
    if prepared is None:
        return
    offers = list(_batch_sizes(state, prepared, path, text, place))
    known = {offer.choice for offer in offers}
    offers += [
        offer
        for change in _changes_at(server, state, prepared, path, text, place)
        if (offer := _offer(state, change)).choice not in known
    ]
    for offer in sorted(offers, key=lambda offer: bool(offer.refused)):
        action = _action(server, state, offer, REFACTORING)
        if action is not None:
            yield action


def _changes_at(
    server: SkylineServer,
    state: ScriptState,
    prepared: Prepared,
    path: str,
    text: SourceText,
    place: types.Range,
) -> Iterator[ApplicableChange]:
    """The changes that edit the range. At the training loop, also the best of all and the refused ones."""
    if path not in prepared.sources:
        return
    moved = line_map(prepared.sources[path].text, text.text)
    here = {
        (change.estimate.name, change.estimate.value)
        for change in prepared.changes
        if any(file == path and _covers(place, moved(line)) for file, line in change.places)
    }
    if _covers(place, headline_line(server, state, path, text)):
        best: dict[str, ApplicableChange] = {}
        for change in prepared.changes:
            best.setdefault(change.estimate.name, change)
        writable = [change for change in best.values() if change.edits]
        refused = [change for change in best.values() if not change.edits]
        here |= {
            (change.estimate.name, change.estimate.value) for change in (*writable[:_MOST_AT_LOOP], *refused)
        }
    for change in prepared.changes:
        if (change.estimate.name, change.estimate.value) in here:
            yield change


def _batch_sizes(
    state: ScriptState, prepared: Prepared, path: str, text: SourceText, place: types.Range
) -> Iterator[_Offer]:
    """Double, half and largest fitting batch size, if the batch size is set in the range and can be rewritten."""
    found = batch_size_place(prepared.report, prepared.sources.get(path), text)
    if found is None or not _covers(place, found.span.line):
        return
    for other in batch_size_offers(state, found.value):
        choice = Choice(BATCH_SIZE, str(other.size))
        tried = prepared.analysis.rewrites.tried(choice.name, choice.value)
        if tried.edits is None:
            # The what-if for the batch size, which is offered anyway, shows the reason once.
            return
        words = other.title if other.refused else f"{other.title}, {_effect(other.answer, state)}"
        yield _Offer(choice, words, other.answer.semantics, tried.edits, other.refused)


def fix_all(server: SkylineServer, uri: str) -> Iterator[types.CodeAction]:
    """One action with all helpful cures in a file that leave the training result unchanged."""
    path = convert.path_of(uri)
    settings = server.settings_at(path).diagnostics
    cures: dict[str, tuple[ScriptState, Choice]] = {}
    for placed in diagnostics.placed_findings(server.scripts, server.texts):
        prepared = placed.state.prepared
        if prepared is None or placed.finding.file != path:
            continue
        change = _cure(prepared, placed)
        selected = diagnostics.is_selected(placed.finding.code, settings)
        if change is not None and selected and change.estimate.semantics == "exact":
            estimate = change.estimate
            cures.setdefault(estimate.name, (placed.state, Choice(estimate.name, estimate.value)))
    state = next((state for state, _ in cures.values()), None)
    chosen: tuple[Choice, ...] = ()
    edit: types.WorkspaceEdit | None = None
    for _, choice in cures.values():
        if state is None:
            break
        with contextlib.suppress(SkylineError):
            # A cure that cannot be combined with the others is left to the user.
            planned = planned_edit(server, state, Question(choices=(*chosen, choice)))
            if planned is not None:
                chosen, edit = (*chosen, choice), planned
    if state is not None and state.prepared is not None and edit is not None:
        effect = _effect(state.estimate(Question(choices=chosen)), state)
        yield types.CodeAction(
            title=f"Skyline: make all safe changes ({', '.join(map(str, chosen))}), {effect}",
            kind=FIX_ALL,
            edit=edit,
        )


def _wanted(kind: str, only: Any) -> bool:
    return not only or any(f"{kind}.".startswith(f"{getattr(one, 'value', one)!s}.") for one in only)


def _named(kind: str, only: Any) -> bool:
    """True if exactly this kind is requested: a request for a parent kind must not change the whole file."""
    return any(getattr(one, "value", one) == kind for one in only or ())


def _covers(place: types.Range, line: int | None) -> bool:
    return line is not None and convert.line_number(place.start) <= line <= convert.line_number(place.end)


def _cure(prepared: Prepared, placed: PlacedFinding) -> ApplicableChange | None:
    known = next((change for change in prepared.changes if diagnostics.cures(change, placed.finding)), None)
    if known is None or not known.edits:
        return None
    # A finding without a time cost is about memory, so its cure needs no speedup.
    return known if known.estimate.speedup > 1 or placed.finding.cost_ms == 0 else None


@dataclass(frozen=True, slots=True)
class _Offer:
    """One change on offer. ``edits`` refer to the profiled text. ``refused`` is the reason it cannot be chosen."""

    choice: Choice
    words: str
    semantics: str
    edits: tuple[TextEdit, ...]
    refused: str = ""


def _offer(state: ScriptState, change: ApplicableChange) -> _Offer:
    answer = change.estimate
    words = f"{answer.title}, {_effect(answer, state)}"
    return _Offer(Choice(answer.name, answer.value), words, answer.semantics, change.edits, change.refused)


def _action(server: SkylineServer, state: ScriptState, offer: _Offer, kind: str) -> types.CodeAction | None:
    """The action for an offer. None if the client cannot show a refused action, or no edit fits the current text."""
    prepared = state.prepared
    assert prepared is not None
    document, workspace = server.client_capabilities.text_document, server.client_capabilities.workspace
    able = document.code_action if document else None
    name = f"{kind}.{offer.choice.name}" if kind == REFACTORING else kind
    title = f"Skyline: {offer.words}"
    meaning = _MEANING.get(offer.semantics)
    if not offer.refused and meaning and not _annotates(server):
        # The client asks for no confirmation, so the title must name the effect.
        title += f". {meaning.removesuffix('.')}"
    action = types.CodeAction(title=title, kind=name)
    if offer.refused:
        if not (able and able.disabled_support):
            return None
        action.disabled = types.CodeActionDisabled(offer.refused)
        return action
    before = _unchanged(server, prepared, offer.edits)
    if before is not None:
        edit = edit_of(server, state, offer.edits, before)
        action.edit = _annotated(server, edit, offer.semantics, title)
    elif able and able.resolve_support and "edit" in able.resolve_support.properties:
        action.data = {"uri": state.uri, "whatif": str(offer.choice), "semantics": offer.semantics}
    elif workspace and workspace.apply_edit:
        # Planning every change for an edited text would be slow: plan only the chosen one.
        asked = _question(offer.choice)
        sent = {"batchSize": asked.batch_size, "whatifs": [str(choice) for choice in asked.choices]}
        action.command = types.Command(title, protocol.COMMAND_APPLY_REWRITE, arguments=[state.uri, sent])
    else:
        try:
            edit = planned_edit(server, state, _question(offer.choice))
            action.edit = _annotated(server, edit, offer.semantics, title)
        except SkylineError:
            return None
        if action.edit is None:
            return None
    return action


def _question(choice: Choice) -> Question:
    if choice.name == BATCH_SIZE and choice.value.isdecimal():
        return Question(batch_size=int(choice.value))
    return Question(choices=(choice,))


def _annotated(
    server: SkylineServer, edit: types.WorkspaceEdit | None, semantics: str, label: str
) -> types.WorkspaceEdit | None:
    """Mark an edit that changes training as needing confirmation, if the client supports change annotations."""
    meaning = _MEANING.get(semantics)
    if edit is None or meaning is None or not _annotates(server):
        return edit
    annotation = types.ChangeAnnotation(label=label, needs_confirmation=True, description=meaning)
    for change in edit.document_changes or ():
        if isinstance(change, types.TextDocumentEdit):
            change.edits = [
                types.AnnotatedTextEdit(semantics, part.range, part.new_text)
                if isinstance(part, types.TextEdit)
                else part
                for part in change.edits
            ]
    edit.change_annotations = {semantics: annotation}
    return edit


def _annotates(server: SkylineServer) -> bool:
    """True if the client supports confirmation of annotated edits."""
    workspace = server.client_capabilities.workspace
    able = workspace.workspace_edit if workspace else None
    return bool(able and able.change_annotation_support and able.document_changes)


def _unchanged(
    server: SkylineServer, prepared: Prepared, edits: tuple[TextEdit, ...]
) -> dict[str, SourceText] | None:
    """The current texts of the profiled files. None if any of them differs from the profiled text."""
    shown = {path: server.texts.shown(path) for path in prepared.sources}
    known = {path: text for path, text in shown.items() if text is not None}
    same = all(path in known and known[path].text == source.text for path, source in prepared.sources.items())
    same = same and not any(server.texts.outdated(path) for path in known)
    files = {edit.span.file for edit in edits}
    return known if same and files <= known.keys() else None


def _effect(estimate: EstimateReport, state: ScriptState) -> str:
    """Effect in words: ``predicted -5.1 ms per iteration (modelled), -381 MB at the peak``.

    For another batch size it gives samples per second instead of time.
    """
    prepared = state.prepared
    assert prepared is not None
    now = prepared.report
    of_batch = estimate.name == BATCH_SIZE or estimate.batch_size != now.batch_size.value
    words = throughput_words(state, estimate) if of_batch else ""
    if not words:
        change = units.format_ms_delta(estimate.iteration_ms.value - now.iteration_ms.value)
        words = f"predicted {change} per iteration ({estimate.provenance})"
    peak = prepared.whatifs.baseline.peak.value
    memory = estimate.peak.value - peak
    if abs(memory) >= _WORTH_TELLING * peak:
        words += f", {units.format_bytes_delta(memory)} at the peak"
    return words


@dataclass(frozen=True, slots=True)
class BatchSizeOffer:
    """Another size with its estimate. ``refused`` is the reason it cannot be chosen, empty if it can."""

    size: int
    title: str
    answer: Estimate
    refused: str = ""


def batch_size_offers(state: ScriptState, current: int) -> Iterator[BatchSizeOffer]:
    """The sizes to offer for the current one. Empty if other sizes cannot be estimated."""
    prepared = state.prepared
    if prepared is None:
        return
    sizes: dict[int, str] = {2 * current: "double the batch size to {size}"}
    if current > 1:
        sizes[current // 2] = "halve the batch size to {size}"
    largest = largest_that_fits(prepared.analysis)
    if largest is not None and largest != current:
        step = sizes.pop(largest, "batch size {size}")
        sizes[largest] = f"{step}, the largest size on the curve that fits into memory"
    usable = prepared.report.memory.usable_bytes
    for size, words in sizes.items():
        answer = state.estimate(Question(batch_size=size))
        verdict = fit(answer.peak, usable)
        title, refused = words.format(size=size), ""
        if verdict is Fit.TOO_LARGE and usable:
            needed, there = units.format_bytes(answer.peak.value), units.format_bytes(usable)
            refused = (
                f"Batch size {size} does not fit into memory: it needs {needed}, and {there} is available."
            )
        elif not answer.applicable:
            # There is no curve: the report and the list of what-ifs show the reason.
            continue
        elif verdict is Fit.UNSURE:
            title += ", which may not fit into memory"
        yield BatchSizeOffer(size, title, answer, refused)


def throughput_words(state: ScriptState, answer: Estimate) -> str:
    """Throughput with its basis: ``predicted 57,538 samples/s ±2,000``. Empty if samples cannot be counted."""
    prepared = state.prepared
    size = answer.batch_size
    if prepared is None or size is None or answer.throughput is None:
        return ""
    on_curve = (point for point in prepared.report.curve if point.batch_size == size)
    point = next(on_curve, None) or point_of(answer, size)
    known = basis.point_basis(point, predicted=True) if point is not None else "predicted"
    return f"{known} {units.format_throughput_interval(answer.throughput)}"
