"""The page of the user's code: a table of lines, their modules, and the source with its heat."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import DataTable, Tree
from textual.widgets.tree import TreeNode

from skyline import units
from skyline.report.place import common_base
from skyline.report.schema import LineReport, ProfileReport
from skyline_tui.figures import BAR
from skyline_tui.views.view import Place, View
from skyline_tui.widgets.lines import UNATTRIBUTED, place_in
from skyline_tui.widgets.sort_table import SortTable, TableColumn
from skyline_tui.widgets.source import FLASH_S, Source

_HEAT_CELLS = 8
_ROOMY = 90


class LinesView(View):
    """Selecting a module filters the table; selecting a line shows it in its file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "modules", "Modules", show=False, id="lines.modules")
    ]

    def __init__(self) -> None:
        super().__init__(id="view-lines", classes="view page")
        self._profile: ProfileReport | None = None
        self._module = WHOLE
        self._base: Path | None = None
        self._followed: Place | None = None
        self._written: tuple[str, Collection[int], float] | None = None
        """File and lines rewritten before the page had widgets, and the time of the rewrite in s."""

    def parts(self) -> ComposeResult:
        with Container(id="lines-grid"):
            tree: Tree[ModuleCost] = Tree("all modules", id="modules", classes="panel")
            tree.border_title = "Modules: Enter filters"
            tree.show_root = True
            tree.guide_depth = 2
            yield tree
            table: SortTable[LineReport] = SortTable(
                [TableColumn("waiting for the first profile", _code, lambda line: line.line)],
                sorted_by=0,
                table_id="line-table",
            )
            table.border_title = "Lines (Enter: source, s or a click on a title sorts)"
            yield table
            yield Source("line-source")

    def show(self, profile: ProfileReport) -> None:
        """Show a new profile; the selected module stays selected if it still exists."""
        self._profile = profile
        self._base = common_base(profile.script, tuple(line.file for line in profile.lines if line.file))
        if self.made:
            self.catch_up()

    def catch_up(self) -> None:
        if self._profile is not None:
            self.query_one(Source).show(self._profile)
            self._grow(module_costs(self._profile.lines))
            self._fill()
        if self._written is not None:
            file, lines, written_s = self._written
            if monotonic() - written_s < FLASH_S:
                self.query_one(Source).flash(file, lines)
            else:
                self.query_one(Source).open_at(file, min(lines))

    def wrote(self, file: str, lines: Collection[int]) -> None:
        """Show rewritten lines, marked for a moment."""
        if self.made:
            self.query_one(Source).flash(file, lines)
        elif lines:
            self._written = file, lines, monotonic()

    def shown(self) -> None:
        self.query_one(SortTable).focus()

    def open(self, file: str, line: int) -> None:
        """Show a line selected elsewhere."""
        self.query_one(SortTable).go_to(lambda row: (row.file, row.line) == (file, line))
        self.query_one(Source).open_at(file, line)

    @property
    def place(self) -> Place | None:
        """The line under the table's cursor, or the visible one if the source has the focus."""
        source = self.query_one(Source)
        row: LineReport | None = self.query_one(SortTable).current
        if source.has_focus or row is None or not row.line:
            return source.place
        return row.file, row.line

    def action_modules(self) -> None:
        """Focus the modules, or return from them to the lines."""
        tree = self.query_one(Tree)
        if tree.has_focus:
            self.remove_class("-modules")
            self.query_one(SortTable).focus()
        else:
            self.add_class("-modules")
            tree.focus()

    def on_tree_node_selected(self, message: Tree.NodeSelected[ModuleCost]) -> None:
        message.stop()
        self._module = message.node.data.path if message.node.data is not None else WHOLE
        self._fill()
        self.remove_class("-modules")
        self.query_one(SortTable).focus()

    def on_data_table_row_highlighted(self, message: DataTable.RowHighlighted) -> None:
        message.stop()
        table: SortTable[LineReport] = self.query_one(SortTable)
        row = table.current
        if row is None or not row.line:
            return
        # Follow only moves by the user: refilling the table sends this message too.
        here, before = (row.file, row.line), self._followed
        self._followed = here
        if table.has_focus and before is not None and here != before:
            self.query_one(Source).open_at(*here)

    def on_data_table_row_selected(self, message: DataTable.RowSelected) -> None:
        message.stop()
        self.query_one(Source).focus()

    def resized(self) -> None:
        """Show fewer columns on a narrow screen."""
        if self._profile is not None:
            self._fill()

    def _grow(self, root: ModuleCost) -> None:
        tree: Tree[ModuleCost] = self.query_one(Tree)
        tree.clear()
        scale = units.time_scale([root.total_ms])
        tree.root.data = root
        tree.root.set_label(f"all modules  {scale.text(root.total_ms)}")
        _branch(tree.root, root, root.total_ms, scale)
        tree.root.expand()

    def _fill(self) -> None:
        profile = self._profile
        assert profile is not None
        table: SortTable[LineReport] = self.query_one(SortTable)
        rows = [line for line in profile.lines if share_in(line, self._module) > 0]
        files = {line.file for line in rows if line.file}
        self._base = None if files <= {profile.script} else self._base
        table.fill(rows, self._shape(rows, table.size.width))
        name = f"Lines in {self._module}" if self._module else "Lines"
        table.border_title = Content(f"{name} (Enter: source, s or a click on a title sorts)")
        table.border_subtitle = "t: modules"

    def _shape(self, rows: list[LineReport], width: int) -> list[TableColumn[LineReport]]:
        profile, module = self._profile, self._module
        assert profile is not None
        times = [share_in(line, module) for line in rows]
        scale = units.time_scale(times)
        most = max(times, default=1.0) or 1.0
        whole = profile.iteration_ms.value or 1.0

        def spent(line: LineReport) -> float:
            return share_in(line, module)

        shape = [
            TableColumn[LineReport](
                "time",
                lambda line: scale.text(spent(line)),
                lambda line: spent(line) if _named(line) else None,
            ),
            TableColumn[LineReport](
                "share",
                lambda line: units.format_share(spent(line) / whole),
                lambda line: spent(line) if _named(line) else None,
            ),
            TableColumn[LineReport](
                "heat",
                lambda line: BAR * max(round(spent(line) / most * _HEAT_CELLS), 0),
                lambda line: spent(line) if _named(line) else None,
                left=True,
            ),
            TableColumn[LineReport](
                "line",
                lambda line: place_in(line, self._base),
                lambda line: (line.file, line.line) if line.line else None,
                left=True,
                largest_first=False,
            ),
            TableColumn[LineReport](
                "code",
                _code,
                lambda line: line.source.strip() or None,
                left=True,
                largest_first=False,
                flexible=True,
            ),
        ]
        if width >= _ROOMY:
            for title, read in _PHASES.items():
                shape.append(
                    TableColumn[LineReport](
                        title,
                        lambda line, read=read: scale.number(read(line)) if read(line) else "·",
                        lambda line, read=read: read(line) if _named(line) else None,
                    )
                )
        shape.append(
            TableColumn[LineReport](
                "memory",
                lambda line: units.format_bytes(line.activation_bytes) if line.activation_bytes else "",
                lambda line: line.activation_bytes if _named(line) else None,
            )
        )
        shape.append(
            TableColumn[LineReport](
                "calls", lambda line: f"{line.calls:g}" if line.calls else "", lambda line: line.calls
            )
        )
        return shape


_PHASES = {
    "fwd": lambda line: line.forward_ms,
    "bwd": lambda line: line.backward_ms,
    "opt": lambda line: line.optimizer_ms,
}


def _named(line: LineReport) -> bool:
    """True for the row of a line or operator. The unattributed time is not one: it stays at the end."""
    return bool(line.line or line.source)


def _code(line: LineReport) -> str:
    return line.source.strip() or UNATTRIBUTED


def _branch(node: TreeNode[ModuleCost], cost: ModuleCost, whole_ms: float, scale: units.UnitScale) -> None:
    for inner in cost.by_cost():
        if inner.total_ms <= 0:
            continue
        share = units.format_share(inner.total_ms / whole_ms) if whole_ms > 0 else ""
        label = Text.assemble((inner.name, "bold"), f"  {scale.text(inner.total_ms)}  {share}")
        if inner.inside:
            branch = node.add(label, data=inner)
            _branch(branch, inner, whole_ms, scale)
        else:
            node.add_leaf(label, data=inner)


WHOLE = ""
"""The path of the root."""


@dataclass(slots=True)
class ModuleCost:
    """A module including its submodules, in ms per iteration; ``own_ms`` excludes the submodules."""

    path: str
    total_ms: float = 0.0
    own_ms: float = 0.0
    inside: dict[str, ModuleCost] = field(default_factory=dict[str, "ModuleCost"])

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def by_cost(self) -> list[ModuleCost]:
        """The direct submodules, highest cost first."""
        return sorted(self.inside.values(), key=lambda one: -one.total_ms)


def module_costs(lines: Iterable[LineReport]) -> ModuleCost:
    """The tree of all modules with lines; its root is the whole iteration."""
    root = ModuleCost(WHOLE)
    for line in lines:
        left = line.self_ms
        for part in line.parts:
            _add(root, part.module, part.self_ms)
            left -= part.self_ms
        if left > 0:
            _add(root, line.module, left)
    return root


def share_in(line: LineReport, path: str) -> float:
    """The time, in ms, that a line spends inside a module."""
    if path == WHOLE:
        return line.self_ms
    known = sum(part.self_ms for part in line.parts)
    inside = sum(part.self_ms for part in line.parts if _is_in(part.module, path))
    return inside + (max(0.0, line.self_ms - known) if _is_in(line.module, path) else 0.0)


def _add(root: ModuleCost, path: str, time_ms: float) -> None:
    node = root
    node.total_ms += time_ms
    names = path.split(".") if path else []
    for depth, name in enumerate(names, 1):
        node = node.inside.setdefault(name, ModuleCost(".".join(names[:depth])))
        node.total_ms += time_ms
    node.own_ms += time_ms


def _is_in(module: str, path: str) -> bool:
    return module == path or module.startswith(path + ".")
