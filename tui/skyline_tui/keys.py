"""The keys of the main screen. Every one has an id, so that a keymap can give it another key."""

from __future__ import annotations

from textual.binding import Binding

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
        tooltip="Type a batch size; digits do too",
    ),
    Binding("enter", "settle", "Take it", show=False, priority=True, id="batch.settle"),
    Binding("a", "apply", "Apply", id="apply", tooltip="Write what is asked into the code"),
    Binding("u", "undo", "Undo", id="undo", tooltip="Take the last apply back, byte for byte"),
    Binding("d", "diff", "Diff", id="diff", tooltip="Show what apply would write"),
    Binding(
        "f",
        "fastest",
        "Fastest",
        show=False,
        id="fastest",
        tooltip="Search for the fastest combination under limits of memory and of what training may notice",
    ),
    Binding(
        "v",
        "verify",
        "Verify",
        id="verify",
        tooltip="Measure what is asked against its prediction, without touching the file",
    ),
    Binding(
        "e",
        "devices",
        "Other GPUs",
        show=False,
        id="devices",
        tooltip="Predict the script on other GPUs: time, what fits, cost, energy. Nothing is run",
    ),
    Binding(
        "i",
        "findings",
        "Findings",
        show=False,
        id="findings",
        tooltip="Performance problems: the evidence, the line, the cost and the cure of each",
    ),
    Binding(
        "m",
        "mode",
        "Mode",
        id="mode",
        tooltip="Live: a release rewrites the file. Staged: only apply does",
    ),
    Binding("r", "profile", "Measure", id="profile", tooltip="Measure the script again"),
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
    "cancel",
    "sort",
    "edit",
)
"""Bindings that the command palette offers as well; the others are of no use without their key."""

HELP = """\
[b]Move a bar[/b]
  drag             the other bar and the numbers follow at once
  \\[ ]              batch size −1, +1       { }  −10, +10
  b, or digits     type a batch size
  Enter            take it at once, not after a moment
  Esc              back to the script as it is

[b]Change the code[/b]
  m                live ●: letting go rewrites · staged ○: a does
  a                apply the batch size and the checked what-ifs
  u                undo the last apply, byte for byte
  d                show what apply would write
  f                find the fastest combination under limits
  v                verify: measure it in memory, for minutes
  e                elsewhere: predict the script on other GPUs
  o                open the line in $EDITOR; saving measures again

[b]Look[/b]
  w l g p          what-ifs, lines, batch sizes, source
  i                findings: problems, with evidence and cure
  Space            check a what-if; all checked go together
  ← →, + -         another value of a what-if with ‹›
  Enter            explain a what-if, open a line, choose a size
  s                sort the lines by time, memory, place

[b]Measure[/b]
  r                measure again          c, Esc  cancel

[b]Signs[/b]
  █ now   ▓ would be added   ░ would go   ┃ where you are
  ± half the range the value is believed to lie in
  exact            the same numbers come out of training
  numerics, num.   results differ by rounding
  convergence, conv.  training may go another way
  ● ○ ?            measured, between measured ones, beyond them
  !                extrapolated, or does not apply and why
"""
