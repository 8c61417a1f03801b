"""The secrets of a job: kept where they are shown masked, told to nobody, and carried nowhere else.

Among its parameters they are hidden from everyone. In the address that it calls, among the arguments of its program and
among its options they are shown to who may change what it does, as in the address of a webhook.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from engine.core.errors import BadInput
from engine.core.redaction import redact_text, shown_url
from hbus_console.access.permissions import GLOBAL, Actor, allows
from hbus_console.drafts.setting import JsonObject
from hbus_console.jobs.feature import JOB_COMMAND, JOB_EDIT
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.draft import SETTINGS
from hbus_console.jobs.services.secrecy import Secrecy, secrecy_of
from hbus_console.jobs.services.work import schema_of
from hbus_console.jobs.showing import MASK, hidden_in, masks_in, restored, shown_options
from hbus_console.jobs.unseen import shown_after

#: Who changes one of these might read the secrets by it: they go elsewhere, or are not called secret any more.
WHERE = ("kind", "target", "options", "parameters_schema")
#: Who changes one of these has the options sent elsewhere. They may see these, but a mask says that they did not look.
_ELSEWHERE = ("kind", "target")
#: A secret counts as so many bytes, or as twice as many, and so on.
_COUNTED = 1_000
#: Kinds whose work takes the right to have jobs run programs.
_PROGRAMS = (WorkName.COMMAND, WorkName.SPARK)


def shown_settings(settings: Mapping[str, Any], secrecy: Secrecy, *, whole: bool = False) -> dict[str, Any]:
    """The settings of a job, or of a version of it, as they may be shown and written down.

    ``secrecy`` is that of the job. ``whole``: to somebody who may change what it does, see :func:`sees_whole`.
    """
    shown = dict(settings)
    if settings.get("parameters"):
        shown["parameters"] = secrecy.masked(settings["parameters"], settings)
    if whole:
        return shown
    if settings.get("parameters_schema"):
        shown["parameters_schema"] = secrecy.shown_schema(settings["parameters_schema"])
    if "kind" not in settings:
        return shown
    return {**shown, "target": shown_target(settings), "options": shown_options(settings.get("options") or {})}


def shown_to(who: Actor, name: str, settings: Mapping[str, Any], secrecy: Secrecy) -> dict[str, Any]:
    """Those of the job ``name`` as ``who`` may see them: also without the names of jobs that they may not see."""
    shown = shown_settings(settings, secrecy, whole=sees_whole(who, name, settings))
    return {**shown, "after": shown_after(who, shown["after"])} if shown.get("after") else shown


def sees_whole(who: Actor, name: str, settings: Mapping[str, Any]) -> bool:
    """Whether ``who`` may change what the job ``name`` does, where it does what the ``settings`` say: then they see all
    of it. Who may edit jobs and not have them run programs changes no program.
    """
    runs_code = settings.get("kind") in _PROGRAMS
    return allows(who, JOB_EDIT, name) and (not runs_code or allows(who, JOB_COMMAND, GLOBAL))


def shown_target(settings: Mapping[str, Any]) -> str:
    """What it does, without what may be a key of an address, and without the arguments of a program.

    Of these each may be a secret, and none has to look like one: no list of patterns is ever whole.
    """
    target: str = settings["target"]
    if settings["kind"] == WorkName.COMMAND:
        program, *arguments = _words(target)
        return " ".join([shlex.quote(program) if program != MASK else program, *([MASK] if arguments else [])])
    return shown_url(target) if settings["kind"] == WorkName.HTTP else redact_text(target)


def target_for(who: Actor, name: str, settings: Mapping[str, Any]) -> str:
    """What the job ``name`` does by these settings, as ``who`` may see it."""
    target: str = settings["target"]
    return target if sees_whole(who, name, settings) else shown_target(settings)


def schema_for(who: Actor, name: str, settings: Mapping[str, Any], secrecy: Secrecy) -> dict[str, Any] | None:
    """What parameters of the job ``name`` must fit by these settings, also where the work itself says it, as ``who``
    may see it.
    """
    schema = schema_of(settings)
    return schema if sees_whole(who, name, settings) else secrecy.shown_schema(schema)


def arguments_of(settings: Mapping[str, Any]) -> list[str]:
    """Those of its program, which :func:`shown_target` leaves out; of other work there are none."""
    return _words(settings["target"])[1:] if settings["kind"] == WorkName.COMMAND else []


def _words(line: str) -> list[str]:
    """The program and its arguments. Where a line cannot be split nobody can say what of it is the program."""
    try:
        return shlex.split(line) or [""]
    except ValueError:
        return [MASK, line]


def with_known(
    changes: Mapping[str, Any], before: Mapping[str, Any], secrecy: Secrecy, *, restores: bool = False
) -> dict[str, Any]:
    """``changes`` with what they show masked as it is; raises ``BadInput`` for a mask of nothing, and for more than is
    taken. ``restores``: they are of a version, and nobody wrote them just now.
    """
    found = dict(changes)
    for name, shown in (("parameters", partial(secrecy.masked, settings=before)), ("options", shown_options)):
        written, known = found.get(name), before.get(name) or {}
        if isinstance(written, Mapping):
            found[name] = restored(written, known, shown(known), field=name)
            if not restores:
                _refuse_large(name, written, found[name])
    if (known_schema := before.get("parameters_schema")) and found.get("parameters_schema") == secrecy.shown_schema(
        known_schema
    ):
        found["parameters_schema"] = known_schema
    if "target" in found and before.get("target") and found["target"] == shown_target(before):
        found["target"] = before["target"]
    elif found.get("kind", before.get("kind")) == WorkName.COMMAND and MASK in str(found.get("target", "")):
        raise BadInput(
            f"{MASK} stands for arguments that are not known here.", remedy="Type the whole line.", field="target"
        )
    return found


def _refuse_large(name: str, written: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
    """By the length of what was ``written``, and not of what is hidden in the ``whole``: whoever writes more beside it
    would learn how long that is. All that is kept has a bound too, for which a secret counts by the begun thousand.
    """
    setting = SETTINGS[name]
    assert isinstance(setting, JsonObject)
    hidden = [len(msgspec.json.encode(each)) for each in hidden_in(whole, written)]
    if setting.measure(written) + sum(-(-size // _COUNTED) * _COUNTED for size in hidden) > setting.kept:
        raise BadInput(
            f"{name.capitalize()} hold more secrets than are kept: {setting.kept:,} bytes, each of them counted by the "
            f"begun {_COUNTED:,}.",
            remedy="Leave out those that are not needed any more.",
            field=name,
        )


def written_of(
    clean: Mapping[str, Any],
    before: Mapping[str, Any],
    typed: Mapping[str, Any],
    secrecy: Secrecy,
    *,
    restores: bool = False,
) -> dict[str, Any]:
    """The parameters of ``clean`` with a mask for each secret that nobody ``typed``, for their schema to be asked.

    ``restores``: they are those of a version, in which nobody typed any just now.
    """
    said = typed.get("parameters")
    if restores or said is None:
        return secrecy.masked(clean["parameters"], clean if restores else before)
    # As a text they are read as they stand: no mask in it stands for anything.
    return dict(said if isinstance(said, Mapping) else clean["parameters"])


def refuse_carrying(
    before: Mapping[str, Any], clean: Mapping[str, Any], typed: Mapping[str, Any], secrecy: Secrecy
) -> None:
    """Raises ``BadInput`` when a secret that nobody ``typed`` would be done something else with, or be shown.

    ``typed`` are the settings as somebody sent them. A secret gets along in two ways: nothing is said of the
    parameters, or a mask stands where it does. What surrounds the mask is nothing to go by.
    """
    if any(clean[name] != before[name] for name in WHERE):
        said = typed.get("parameters")
        known = before["parameters"]
        _refuse(secrecy.places(known, before) if said is None else masks_in(said), "parameters")
    if any(clean[name] != before[name] for name in _ELSEWHERE):
        _refuse(masks_in(typed.get("options")), "options")


def _refuse(carried: list[str], field: str) -> None:
    if carried:
        raise BadInput(
            f"{', '.join(carried)} is secret, and would go another way than it was given for.",
            remedy="Type it anew, or leave the kind, the target, the options and the schema as they are.",
            field=field,
        )


def forget_secrets(row: Job) -> None:
    """Mask them in the runs of a job that goes: nobody will know any more what of them is secret."""
    secrecy = secrecy_of(row.name)
    versions = {each.number: each.settings for each in row.versions.all()}
    for run in JobRun.objects.filter(job=row.name, parameters__isnull=False).iterator():
        shown = secrecy.masked(run.parameters or {}, versions.get(run.version))
        if shown != run.parameters:
            JobRun.objects.filter(pk=run.pk).update(parameters=shown)
