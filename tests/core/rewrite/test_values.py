"""Every value that a what-if offers is one that its rewrite takes."""

from __future__ import annotations

import pytest

from skyline.errors import RewriteRefused, UsageError
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.registry import entries
from skyline.source.text import SourceText
from skyline.whatif.baseline import baseline
from skyline.whatif.registry import whatifs


@pytest.mark.parametrize("name", sorted(set(entries()) & set(whatifs())))
def test_offered_values_are_taken(name, profile, gpu_profile) -> None:
    def read(path: str) -> SourceText:
        raise UsageError(f"{path} is not there")

    reasons: list[str] = []
    for each in (profile, gpu_profile):
        found = whatifs()[name].detect(baseline(each))
        for value in {found.default, *found.values} if found.applicable else {""}:
            try:
                entries()[name].carried_out(RewriteContext(each, read), value)
            except (RewriteRefused, UsageError) as refused:
                # The source is missing here, which is another reason.
                reasons.append(refused.message)
    assert not [reason for reason in reasons if "is not a value" in reason]
