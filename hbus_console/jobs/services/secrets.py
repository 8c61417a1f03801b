"""The secrets among a job's parameters: kept where they are shown masked, told to nobody, and carried nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.errors import BadInput
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.work import schema_of
from hbus_console.jobs.showing import holds_mask, masked, restored, secrets_in

#: Who changes one of these might read the secrets by it: they go elsewhere, or are not called secret any more.
_WHERE = ("kind", "target", "options", "parameters_schema")


def shown_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a job, or of a version of it, as they may be shown and written down."""
    if not settings.get("parameters") or "kind" not in settings:
        return dict(settings)
    return {**settings, "parameters": masked(settings["parameters"], schema_of(settings))}


def with_known(changes: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """``changes`` with what they show masked as it is; raises ``BadInput`` for a mask of nothing."""
    parameters = changes.get("parameters")
    if not isinstance(parameters, Mapping):
        return dict(changes)
    return {**changes, "parameters": restored(parameters, before.get("parameters") or {})}


def refuse_carrying(before: Mapping[str, Any], clean: Mapping[str, Any], typed: Mapping[str, Any] | None) -> None:
    """Raises ``BadInput`` when a secret that nobody ``typed`` would be done something else with, or be shown."""
    if all(clean[name] == before[name] for name in _WHERE):
        return
    known = secrets_in(before["parameters"], schema_of(before))
    carried = [
        name
        for name in known
        if clean["parameters"].get(name) == before["parameters"][name] and not _is_new(name, typed)
    ]
    if carried:
        raise BadInput(
            f"{', '.join(carried)} is secret, and would go another way than it was given for.",
            remedy="Type it anew, or leave the kind, the target, the options and the schema as they are.",
            field="parameters",
        )


def _is_new(name: str, typed: Mapping[str, Any] | None) -> bool:
    """Whether somebody typed the whole of it, and so knows it."""
    return typed is not None and name in typed and not holds_mask(typed[name])


def forget_secrets(row: Job) -> None:
    """Mask them in the runs of a job that goes: nobody will know any more what of them is secret."""
    versions = {each.number: each.settings for each in row.versions.all()}
    for run in JobRun.objects.filter(job=row.name, parameters__isnull=False).iterator():
        settings = versions.get(run.version)
        shown = masked(run.parameters or {}, schema_of(settings) if settings else None)
        if shown != run.parameters:
            JobRun.objects.filter(pk=run.pk).update(parameters=shown)
