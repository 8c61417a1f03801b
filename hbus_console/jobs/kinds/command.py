"""A program, of those that whoever runs this installation allows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from django.conf import settings

from engine.core.errors import BadInput
from engine.cron.work.call import RunContext, WorkOutcome
from engine.cron.work.commands import Program, run_program
from hbus_console.access.permissions import Actor, Forbidden, require
from hbus_console.jobs.feature import JOB_COMMAND
from hbus_console.jobs.kinds.kind import WorkSpec, only, text_option, texts_option
from hbus_console.jobs.kinds.names import WorkName


class CommandKind:
    """``target`` is its line: words as a shell splits them, and nothing else that a shell does."""

    name = WorkName.COMMAND.value
    words = "a program"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        # Before what it names: which programs there are is told to those alone who may have them run.
        require(actor, JOB_COMMAND)
        only(spec, "folder", "environment")
        self._program(spec)

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        try:
            program = self._program(spec)
        except BadInput as error:
            raise Forbidden(error.what, remedy=error.remedy, field="target") from error
        require(actor, JOB_COMMAND)
        return run_program(context, program)

    def _program(self, spec: WorkSpec) -> Program:
        try:
            words = shlex.split(spec.target)
        except ValueError as error:
            raise BadInput(
                f"The command cannot be split into words: {error}.", remedy="Close the quotes.", field="target"
            ) from error
        allowed = list(settings.HBUS_JOB_COMMANDS)
        if not words or words[0] not in allowed:
            raise BadInput(
                f"{words[0] if words else 'Nothing'} is no program that jobs may run here.",
                remedy=f"Allowed are {', '.join(allowed)}."
                if allowed
                else "Whoever runs this installation names those that may in HBUS_JOB_COMMANDS; now there is none.",
                field="target",
            )
        folder = text_option(spec, "folder")
        return Program(words, Path(folder) if folder else None, texts_option(spec, "environment"))
