"""The keys of the main screen. Every binding has an id, so that a keymap can assign another key."""

from __future__ import annotations

from textual.binding import Binding

from skyline_tui.widgets.view_tabs import VIEW_KEYS_OF, VIEWS

KEYS = (
    Binding("left_square_bracket", "step(-1)", "Batch −1", key_display="[", show=False, id="batch.less"),
    Binding("right_square_bracket", "step(1)", "Batch +1", key_display="]", show=False, id="batch.more"),
    Binding(
        "left_curly_bracket", "step(-10)", "Batch −10", key_display="{", show=False, id="batch.much-less"
    ),
    Binding(
        "right_curly_bracket", "step(10)", "Batch +10", key_display="}", show=False, id="batch.much-more"
    ),
    Binding(
        "b",
        "type_batch_size",
        "Batch",
        show=False,
        id="batch.type",
        tooltip="Type a batch size",
    ),
    Binding("enter", "settle", "Take it", show=False, priority=True, id="batch.settle"),
    Binding(
        "a",
        "apply",
        "Apply",
        id="apply",
        tooltip="Write the batch size and the checked what-ifs into the code",
    ),
    Binding(
        "u",
        "undo",
        "Undo",
        id="undo",
        tooltip="Undo the last change, also after edits elsewhere in the file",
    ),
    Binding("d", "diff", "Diff", id="diff", tooltip="Show the edits that apply would make"),
    Binding(
        "f",
        "fastest",
        "Fastest",
        show=False,
        id="fastest",
        tooltip="Search for the fastest combination under limits of memory and effect on training",
    ),
    Binding(
        "v",
        "verify",
        "Verify",
        id="verify",
        tooltip="Measure the change and compare it with its prediction, without changing the file",
    ),
    Binding(
        "e",
        "devices",
        "Other GPUs",
        show=False,
        id="devices",
        tooltip="Predict the script on other GPUs: time, memory, cost, energy. Nothing is run",
    ),
    Binding(
        "i",
        "view('view-findings')",
        "Findings",
        show=False,
        id="findings",
        tooltip="Performance problems: evidence, line, cost and fix of each",
    ),
    Binding(
        "m",
        "mode",
        "Mode",
        id="mode",
        tooltip="Live: releasing a bar or toggling a what-if rewrites the file. Staged: only apply rewrites it",
    ),
    Binding("r", "profile", "Measure", id="profile", tooltip="Measure the script again"),
    Binding(
        "n",
        "use_later",
        "Later measurement",
        show=False,
        id="use-later",
        tooltip="Show the latest measurement, which was set aside because the machine was busy",
    ),
    Binding("question_mark", "help", "Help", key_display="?", id="help"),
    Binding("q", "quit", "Quit", id="quit"),
    Binding("c", "cancel", "Cancel measuring", show=False, id="cancel"),
    Binding("escape", "back", "Back", show=False, id="back"),
    Binding("s", "sort", "Sort lines", show=False, id="sort"),
    Binding("o", "edit", "Open in $EDITOR", show=False, id="edit"),
    Binding("w", "panel('whatifs')", "What-ifs", show=False, id="panel.whatifs"),
    Binding("l", "panel('lines')", "Lines", show=False, id="panel.lines"),
    Binding("g", "panel('curve')", "Batch sizes", show=False, id="panel.curve"),
    Binding("p", "panel('source')", "Source", show=False, id="panel.source"),
)

VIEW_KEYS = tuple(
    Binding(VIEW_KEYS_OF[view], f"view('{view}')", title, show=False, id=f"page.{title.lower()}")
    for view, title in VIEWS.items()
)
"""The pages by their keys."""

IN_PALETTE = (
    "batch.type",
    "fastest",
    "verify",
    "devices",
    "findings",
    "apply",
    "undo",
    "diff",
    "mode",
    "profile",
    "use-later",
    "cancel",
    "sort",
    "edit",
)
"""Bindings that the command palette also offers; the others are useless without their key."""

HELP = """\
[b]Pages[/b]
  1 2 3 4          Overview, Lines, Timeline, Memory
  5 6 7 8 9        Devices, Diff, Findings, Log, Plan
  W T              Watch, Tune
  Esc              back to the Overview
  Ctrl+P           all commands by name, and the themes

[b]Move a bar[/b]
  drag             the other bar and the numbers follow at once
  \\[ ]              batch size −1, +1       { }  −10, +10
  b                type a batch size
  Enter            accept it at once
  Esc              back to the unchanged script

[b]Change the code[/b]
  m                live ●: a release or a toggle rewrites
                   staged ○: only the key a rewrites
  a                apply the batch size and the checked what-ifs
  u                undo the last change
  d                show the edits that apply would make, or the latest
  f                find the fastest combination under limits
  v                verify: measure the change; takes minutes
  o                open the line in $EDITOR; saving measures again

[b]Look[/b]
  w l g p          what-ifs, lines, batch sizes, source
  Space            check a what-if; all checked go together
  ← →, + -         another value of a what-if with ‹›
  Enter            explain a what-if, open a line, choose a size
  s                sort by the next column
  i                findings, with evidence; Space tries the fix
  e                elsewhere: predict the script on other GPUs

[b]On a page[/b]
  Lines            t modules: Enter shows only its lines
                   S previous column, R reverse order
  Timeline         ← → moves, + - or the wheel zooms, drag pans
                   n b next and previous work, z zooms to it
                   Home all, Enter its line, , . iterations
  Memory           ← → or a drag moves the cursor, x the peak
  Plan             Enter: timeline of a row, Esc closes it
                   a writes its code, x its Perfetto file
  Watch            Enter: line of an alert; , . runs
  Tune             t searches by measured trials
                   a writes the changes of the row

[b]Measure[/b]
  r                measure again          c, Esc  cancel
  n                show the latest measurement, which was set
                   aside because the machine was busy

[b]Signs[/b]
  █ now   ▓ added   ░ removed   ┃ your position
  ▏▎▌█ a line's share of the time   ± just rewritten
  \\[x] checked   \\[w] written, not measured yet
  ± half the width of the range of a value
  exact            training computes the same numbers
  numerics, num.   results differ by rounding
  convergence, conv.  training may converge differently
  model            a different model is trained
  ● ○ ?            measured, between measured ones, beyond them
  !                extrapolated, or does not apply and why
"""
