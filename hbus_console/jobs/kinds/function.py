"""A Python function of an installed app."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.utils.module_loading import autodiscover_modules

from engine.core.errors import BadInput, NotThere
from engine.cron.work.call import RunContext, WorkOutcome
from engine.cron.work.functions import JobFunction, find_function, job_functions
from hbus_console.access.permissions import Actor
from hbus_console.jobs.kinds.kind import WorkSpec, only
from hbus_console.jobs.kinds.names import WorkName


class FunctionKind:
    name = WorkName.FUNCTION.value
    words = "a Python function"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
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
        try:
            return _found(spec.target).run(context)
        except NotThere as error:
            return WorkOutcome(False, error.what, again=False)


def known_functions() -> list[JobFunction]:
    """All that the modules ``job_functions`` of the installed apps register."""
    _load()
    return job_functions()


def _found(name: str) -> JobFunction:
    _load()
    return find_function(name)


@cache
def _load() -> None:
    autodiscover_modules("job_functions")
