"""The optimizers of a script: the number of steps of each, and the optimizer whose step ends an iteration."""

from __future__ import annotations

import weakref

from . import user_code


class ObservedOptimizer:
    """An optimizer that was constructed; ``steps`` counts all its steps, ``steps_lately`` those in one iteration."""

    def __init__(self, optimizer, created):
        self.optimizer = weakref.ref(optimizer)
        self.kind = type(optimizer)
        self.created = created
        self.step_line = None
        self.steps = 0
        self.skipped = 0
        self.steps_before = 0
        self.steps_lately = 0
        self.last_step = 0
        self.since_anchor = 0
        """Steps of this optimizer since the anchor's last step."""

    @property
    def ended(self):
        """True if the optimizer no longer exists."""
        return self.optimizer() is None

    def is_like(self, other):
        """True if both are created on one line and step on one line: they do the same work on different weights."""
        return (self.kind, self.created, self.step_line) == (other.kind, other.created, other.step_line)

    def take_over(self, earlier):
        """Continue the counts of an optimizer that is gone."""
        self.steps += earlier.steps
        self.skipped += earlier.skipped
        self.steps_before += earlier.steps_before
        self.steps_lately = earlier.steps_lately


class ObservedOptimizers:
    """All optimizers that a script created.

    The anchor, whose step ends an iteration, is the one that steps least often; with equal counts, the one that steps
    last. Until it is fixed, it is chosen at each step. A script may create a new optimizer for each epoch, fold or
    client: at its first step the new one takes over the counts of a similar one that is gone, and its role as anchor.
    If the earlier one still exists, as in a list of clients, a similar one becomes the anchor once its number of steps
    since the anchor's last step is more than twice its number in an iteration of the warm-up.
    """

    def __init__(self):
        self.made = 0
        """Number of optimizers constructed, or seen to step."""
        self.steps = 0
        """Steps of all optimizers."""
        self._known = {}
        self._gone = []
        self._anchor = None

    def created(self, optimizer, line):
        """Add an optimizer that was created on this line."""
        known = self._known.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            self._add(optimizer, line)

    def seen(self, optimizer):
        """The record of this optimizer."""
        known = self._known.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            known = self._add(optimizer, None)
        return known

    def stepped(self, seen, skipped=0):
        """Count a step of this optimizer. True if it is the anchor."""
        self.steps += 1
        if seen.step_line is None:
            seen.step_line = user_code.innermost_line()
        if not seen.steps:
            self._continue_an_earlier(seen)
        if self._anchor is not None and seen is not self._anchor:
            self._judge(seen, self._anchor)
        seen.steps += 1
        seen.skipped += skipped
        seen.last_step = self.steps
        return seen is self.anchor

    @property
    def anchor(self):
        """The optimizer whose step ends an iteration; None if none has stepped yet."""
        if self._anchor is not None:
            return self._anchor
        stepped = [seen for seen in self._every() if seen.steps]
        # An optimizer that is gone would never end an iteration again.
        choice = [seen for seen in stepped if not seen.ended] or stepped
        return min(choice, key=lambda seen: (seen.steps, -seen.last_step), default=None)

    def fix_anchor(self):
        """Keep the anchor from now on; only a similar optimizer can replace it."""
        self._anchor = self.anchor

    def in_use(self, *, unstepped=False):
        """Pairs of the record of an optimizer and the optimizer: those that stepped, or all that exist."""
        alive = ((seen, seen.optimizer()) for seen in self._known.values())
        return [
            (seen, optimizer)
            for seen, optimizer in alive
            if optimizer is not None and (seen.steps or unstepped)
        ]

    def all_stepped(self):
        """True if every optimizer that still exists has stepped."""
        return all(seen.steps for seen in self._known.values() if not seen.ended)

    def iteration_ended(self):
        """Start to count the steps of each optimizer in the next iteration."""
        for seen in self._known.values():
            seen.steps_lately, seen.steps_before = seen.steps - seen.steps_before, seen.steps

    def _every(self):
        return [*self._gone, *self._known.values()]

    def _add(self, optimizer, line):
        self.made += 1
        before = self._known.pop(id(optimizer), None)
        if before is not None and before.steps:
            # A new optimizer has the same address, but the counts of the old one must still be continued.
            self._gone.append(before)
        added = self._known[id(optimizer)] = ObservedOptimizer(optimizer, line)
        return added

    def _judge(self, seen, anchor):
        """Make this one the anchor if it steps repeatedly while the anchor rests."""
        seen.since_anchor = seen.since_anchor + 1 if seen.last_step > anchor.last_step else 1
        if seen.since_anchor > max(1, 2 * seen.steps_lately) and seen.is_like(anchor):
            self._anchor = seen

    def _continue_an_earlier(self, seen):
        ended = [other for other in self._every() if other.ended and other.steps and other.is_like(seen)]
        if not ended:
            return
        earlier = self._anchor if self._anchor in ended else ended[0]
        seen.take_over(earlier)
        if earlier is self._anchor:
            self._anchor = seen
        self._gone = [other for other in self._gone if other is not earlier]
        self._known = {key: other for key, other in self._known.items() if other is not earlier}
