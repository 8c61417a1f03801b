"""Jobs as a file: what it says is compared with what there is, and made so.

A file is YAML, or JSON, which is YAML too::

    defaults: {owner: Finance, zone: Europe/Lisbon}
    jobs:
      - {name: hotel.invoices, kind: function, target: hotel.invoices, schedule: "0 3 1 * *"}

It says all of a job: a setting that it leaves out, and that ``defaults`` leave out, is what a new job has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from engine.core.error_text import words_of
from engine.core.errors import BadInput, HbusError
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.jobs.feature import JOB_DELETE
from hbus_console.jobs.models import Job
from hbus_console.jobs.planned import PlannedChange, in_order
from hbus_console.jobs.services.draft import SETTINGS, JobDraft, checked, snapshot
from hbus_console.jobs.services.jobs import change_job, checked_change, checked_new, create_job, delete_job
from hbus_console.jobs.services.secrecy import Secrecy, secrecies
from hbus_console.jobs.services.secrets import shown_settings, with_known

#: Bytes of a file.
LARGEST = 4 * 1024 * 1024
_KNOWN = frozenset({"defaults", "jobs"})


def read_jobs(text: str) -> list[JobDraft]:
    """The jobs that a file says. Raises ``BadInput`` naming the job and the setting."""
    if len(text.encode()) > LARGEST:
        raise BadInput(f"The file is larger than {LARGEST:,} bytes.", remedy="Write several.", field="file")
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(
            f"The file cannot be read as YAML: {words_of(error)}.", remedy="See docs/jobs.md.", field="file"
        ) from error
    if not isinstance(read, Mapping) or not isinstance(read.get("jobs"), list):
        raise BadInput("The file has no list of jobs.", remedy="Write jobs: and a list.", field="jobs")
    if unknown := sorted(set(map(str, read)) - _KNOWN):
        raise BadInput(f"A file has no {unknown[0]!r}.", remedy="It has defaults and jobs.", field=unknown[0])
    defaults = read.get("defaults") or {}
    if not isinstance(defaults, Mapping):
        raise BadInput(
            "The defaults are no mapping.", remedy="Write defaults: {zone: Europe/Lisbon}.", field="defaults"
        )
    drafts = [_draft(number, {**defaults, **each} if isinstance(each, Mapping) else each)
              for number, each in enumerate(read["jobs"], 1)]  # fmt: skip
    names = [draft.name for draft in drafts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"The file says {twice[0]} twice.", remedy="Say each job once.", field=f"jobs.{twice[0]}")
    return drafts


def plan(actor: Actor, drafts: Sequence[JobDraft], prune: str = "") -> list[PlannedChange]:
    """What would be done; ``prune`` deletes what begins so (``hotel.``) and is in no draft.

    In the order in which it can be done. Raises ``BadInput`` for the first that does not fit, naming job and setting,
    and ``Forbidden``.
    """
    rows = {row.name: row for row in Job.objects.filter(name__in=[each.name for each in drafts]).select_related("team")}
    secrecy = secrecies(rows)
    planned = [_plan(actor, draft, rows.get(draft.name), secrecy.get(draft.name, Secrecy())) for draft in drafts]
    if prune:
        kept = {draft.name for draft in drafts}
        beyond = Job.objects.filter(name__startswith=prune).exclude(name__in=kept).order_by("name")
        for name in beyond.values_list("name", flat=True):
            require(actor, JOB_DELETE, name)
            planned.append(PlannedChange(name, "delete"))
    return in_order(planned)


def apply(actor: Actor, planned: PlannedChange, reason: str) -> None:
    """Make one so, in a transaction of its own. Raises what the services raise."""
    match planned:
        case PlannedChange(act="create", draft=JobDraft() as draft):
            create_job(actor, draft, reason)
        case PlannedChange(act="change", draft=JobDraft() as draft):
            change_job(actor, draft.name, planned.changes, reason)
        case PlannedChange(act="delete"):
            delete_job(actor, planned.name, planned.name, reason)


def _draft(number: int, said: Any) -> JobDraft:
    if not isinstance(said, Mapping) or not isinstance(said.get("name"), str):
        raise BadInput(f"Job {number} of the file has no name.", remedy="Write name: and more.", field=f"jobs.{number}")
    name = said["name"]
    known = {field.name for field in SETTINGS.fields}
    if unknown := sorted(set(map(str, said)) - known):
        raise BadInput(
            f"{name} says {unknown[0]!r}, which no job has.",
            remedy=f"It may say {', '.join(sorted(known))}.",
            field=f"jobs.{name}.{unknown[0]}",
        )
    for needed in ("owner", "kind", "target", "schedule"):
        if needed not in said:
            raise BadInput(f"{name} says no {needed}.", remedy=f"Write {needed}: ….", field=f"jobs.{name}.{needed}")
    for field, value in said.items():
        _check_json(name, field, value)
    return JobDraft(**said)


def _check_json(name: str, field: str, value: Any) -> None:
    """YAML has more than JSON, and quotes tell the two apart: a date is none of our values, a text that reads so is."""
    try:
        checks.storable(value, field)
    except BadInput as error:
        raise BadInput(f"{name}: {error.what}", remedy=error.remedy, field=f"jobs.{name}.{field}") from error


def _plan(actor: Actor, draft: JobDraft, row: Job | None, secrecy: Secrecy) -> PlannedChange:
    try:
        return _planned(actor, draft, row, secrecy)
    except HbusError as error:
        raise BadInput(
            f"{draft.name}: {error.what}", remedy=error.remedy, field=f"jobs.{draft.name}.{error.field}"
        ) from error


def _planned(actor: Actor, draft: JobDraft, row: Job | None, secrecy: Secrecy) -> PlannedChange:
    """Checked by what will make it so: see :func:`apply`."""
    if row is None:
        checked_new(actor, draft)
        return PlannedChange(draft.name, "create", draft)
    was = snapshot(row)
    clean = {**checked(draft.name, with_known(asdict(draft), was, secrecy)), "owner": draft.owner}
    secrecy = secrecy.also(clean)
    shown, wanted = shown_settings(was, secrecy), shown_settings(clean, secrecy)
    differs = tuple((name, shown[name], wanted[name]) for name in SETTINGS.changeable if was[name] != clean[name])
    planned = PlannedChange(draft.name, "change" if differs else "same", draft, differs)
    if differs:
        checked_change(actor, row, planned.changes)
    return planned
