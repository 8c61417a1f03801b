"""A Python function of an installed app."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.utils.module_loading import autodiscover_modules

from engine.core.errors import BadInput, NotThere
from engine.cron.work.call import RunContext, WorkOutcome
from engine.cron.work.functions import JobFunction, find_function, job_functions
from hbus_console.access.permissions import Actor, allows, require
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.kinds.kind import WorkSpec, only
from hbus_console.jobs.kinds.names import WorkName


class FunctionKind:
    """``target`` names it, in the namespaces of jobs: who may make a job of its name may have it called by any job."""

    name = WorkName.FUNCTION.value
    words = "a Python function"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        # Before it is looked for: which functions there are is told to those alone who may have them called.
        require(actor, JOB_EDIT, spec.target)
        only(spec)
        try:
            _found(spec.target)
        except NotThere as error:
            raise BadInput(error.what, remedy=error.remedy, field="target") from error

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        try:
            return _found(spec.target).schema
        except NotThere:
            return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        require(actor, JOB_EDIT, spec.target)
        try:
            return _found(spec.target).run(context)
        except NotThere as error:
            return WorkOutcome(False, error.what, again=False)


def known_functions(actor: Actor) -> list[JobFunction]:
    """Those that the modules ``job_functions`` of the installed apps register, and ``actor`` may have called."""
    _load()
    return [each for each in job_functions() if allows(actor, JOB_EDIT, each.name)]


def _found(name: str) -> JobFunction:
    _load()
    return find_function(name)


@cache
def _load() -> None:
    autodiscover_modules("job_functions")
