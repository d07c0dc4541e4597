"""Finds the rules: every module of this package that binds ``RULE``, or ``JOB_RULE``."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Any

import skyline.findings
from skyline.attempt import Attempts
from skyline.findings.base import Finding, JobRule, Rule
from skyline.job.job import Job
from skyline.whatif.subject import NotKnown, Subject

_OF_THE_GPU = ("SKY2", "SKY3")
"""The groups that judge launches, waits and kernels: where none were recorded a GPU is not idle, but unseen."""


@cache
def rules() -> tuple[Rule, ...]:
    """All rules about one process, in the order of their codes."""
    return tuple(_bound("RULE"))


@cache
def job_rules() -> tuple[JobRule, ...]:
    """All rules about processes that train together, in the order of their codes."""
    return tuple(_bound("JOB_RULE"))


def find(subject: Subject, attempts: Attempts | None = None) -> tuple[Finding, ...]:
    """What the rules find in a profile or a trace, dearest first; what has no line of its own is at the loop's.

    A rule that fails costs a note in ``attempts``, not the findings of the others.
    """
    profile = subject.profile
    loop = None if profile is None else profile.loop_line
    kept = attempts or Attempts()
    unseen = subject.has_unseen_gpu
    found = _dearest_first(
        kept.to(f"check {rule.code}", partial(check, rule, subject), None)
        for rule in rules()
        if not (unseen and rule.code.startswith(_OF_THE_GPU))
    )
    if loop is None:
        return found
    return tuple(one if one.file else replace(one, file=loop.file, line=loop.line) for one in found)


def find_in_job(job: Job) -> tuple[Finding, ...]:
    """What the rules find in the traces of all ranks of a job, dearest first."""
    kept = Attempts()
    return _dearest_first(
        kept.to(f"check {rule.code}", partial(rule.check_job, job), None) for rule in job_rules()
    )


def check(rule: Rule, subject: Subject) -> Finding | None:
    """The problem that a rule finds; None as well where a fact that it needs is not known of this subject."""
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
