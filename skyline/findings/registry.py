"""Registry of the rules: every module of this package that binds ``RULE`` or ``JOB_RULE``."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import skyline.findings
from skyline.findings.base import Finding, JobRule, Rule
from skyline.stage_failures import StageFailures
from skyline.whatif.subject import NotKnown, Subject

if TYPE_CHECKING:
    # The import serves type checking only: findings of one process do not need a job.
    from skyline.job.job import Job

_OF_RECORDED_WORK = ("SKY2", "SKY3")
"""Groups about launches, waits, kernels and operators. They do not apply if these were not recorded."""


@cache
def rules() -> tuple[Rule, ...]:
    """All rules for one process, sorted by code."""
    return tuple(_bound("RULE"))


@cache
def job_rules() -> tuple[JobRule, ...]:
    """All rules for processes that train together, sorted by code."""
    return tuple(_bound("JOB_RULE"))


def find(subject: Subject, attempts: StageFailures | None = None) -> tuple[Finding, ...]:
    """The findings in a profile or a trace, highest cost first; a finding without a line gets the loop's line.

    If a rule fails, ``attempts`` gets a note and the other rules continue.
    """
    profile = subject.profile
    loop = None if profile is None else profile.loop_line
    kept = attempts or StageFailures()
    found = _dearest_first(
        kept.to(f"check {rule.code}", partial(check, rule, subject), None)
        for rule in rules()
        if not (subject.unrecorded and rule.code.startswith(_OF_RECORDED_WORK))
    )
    if loop is None:
        return found
    return tuple(one if one.file else replace(one, file=loop.file, line=loop.line) for one in found)


def find_in_job(job: Job) -> tuple[Finding, ...]:
    """The findings in the traces of all ranks of a job, highest cost first."""
    kept = StageFailures()
    return _dearest_first(
        kept.to(f"check {rule.code}", partial(rule.check_job, job), None) for rule in job_rules()
    )


def check(rule: Rule, subject: Subject) -> Finding | None:
    """The finding of a rule; None also if the subject lacks a necessary fact."""
    try:
        return rule.check(subject)
    except NotKnown:
        return None


def _dearest_first(found: Iterable[Finding | None]) -> tuple[Finding, ...]:
    present = [finding for finding in found if finding is not None]
    return tuple(sorted(present, key=lambda finding: (-finding.cost_ms, finding.code)))


def _bound(name: str) -> list[Any]:
    modules = pkgutil.iter_modules(skyline.findings.__path__, "skyline.findings.")
    found = [getattr(import_module(module.name), name, None) for module in modules]
    return sorted((rule for rule in found if rule is not None), key=lambda rule: rule.code)
