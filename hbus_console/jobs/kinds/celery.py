"""A task that is handed over to the Celery workers of others."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from django.conf import settings

from engine.core.clock import to_rfc3339
from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.cron.work.call import RunCall, RunContext, WorkOutcome
from hbus_console.access.permissions import Actor
from hbus_console.jobs.kinds.kind import WorkSpec, only, text_option
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.stores import Broker

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection

#: Options that are numbers, as Celery has them: the least of each, and the most.
NUMBERS = {
    "expires": (0.001, math.inf),
    "priority": (0, 255),
    "time_limit": (0.001, math.inf),
    "soft_time_limit": (0.001, math.inf),
}
#: How long the broker may take to connect, and to answer, in seconds.
CONNECT_S, ANSWER_S = 5.0, 10.0
_TASKS = UUID("6f1c2a44-6c0b-5b0e-9d0a-3d3b6e7c51f2")


class CeleryKind:
    """``target`` names the task, its parameters are the keyword arguments. It is done once the broker has it."""

    name = WorkName.CELERY.value
    words = "a Celery task"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        _broker()
        only(spec, "queue", "args", *NUMBERS)
        _said(spec)

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        call = context.call
        try:
            broker, said = _broker(), _said(spec)
        except BadInput as error:
            return WorkOutcome(False, error.what, again=False)
        context.raise_if_stopped()
        # Not at the top: pages know this kind too, and send nothing.
        from kombu.exceptions import OperationalError

        task_id = task_id_of(call)
        headers = {"hbus_run": call.run, "hbus_job": call.job, "hbus_slot": to_rfc3339(call.slot * 1000)}
        with _connection(broker) as connection:
            theirs = connection.connection_errors + connection.channel_errors
            away: tuple[type[BaseException], ...] = (OperationalError, OSError, *theirs)
            try:
                _app().send_task(
                    spec.target,
                    kwargs=dict(call.parameters),
                    task_id=task_id,
                    headers=headers,
                    producer=_app().amqp.Producer(connection),
                    retry=False,
                    **said,
                )
            except away as error:
                return WorkOutcome(False, f"the broker of HBUS_JOB_BROKER does not take it: {words_of(error)}")
        told = f"handed over to the broker as {task_id}; what becomes of it there is not known here"
        context.log.write(f"{spec.target} was {told}\n")
        return WorkOutcome(True, summary=told)


def task_id_of(call: RunCall) -> str:
    """The id of its task: the same in each attempt, so that who gets it twice can tell."""
    return str(uuid5(_TASKS, f"{call.job} {call.correlation_id}"))


def _broker() -> Broker:
    """Raises ``BadInput`` where there is none."""
    broker: Broker = settings.HBUS_JOB_BROKER
    if not broker.url:
        raise BadInput(
            "No broker is named that jobs may send tasks of Celery to.",
            remedy="Whoever runs this installation names it in HBUS_JOB_BROKER, for example redis://host:6379/0.",
            field="kind",
        )
    return broker


def _said(spec: WorkSpec) -> dict[str, Any]:
    """The options as Celery takes them. Raises ``BadInput``."""
    args = spec.options.get("args", [])
    if not isinstance(args, list):
        raise BadInput("options.args is a list.", remedy='For example ["HB-1", 7].', field="options")
    for name, (least, most) in NUMBERS.items():
        value = spec.options.get(name)
        if name in spec.options and (
            isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most
        ):
            allowed = "from 0 to 255" if name == "priority" else "of seconds above 0"
            raise BadInput(f"options.{name} is a number {allowed}.", remedy="Write such a number.", field="options")
    return {
        "args": args,
        "queue": text_option(spec, "queue") or None,
        **{name: spec.options[name] for name in NUMBERS if name in spec.options},
    }


@cache
def _app() -> Celery:
    """What knows the form of a task's message. It has no broker: each is sent by a connection that is given to it."""
    # Not at the top, as above.
    from celery import Celery

    app = Celery("hbus-job-tasks", set_as_current=False)
    app.conf.update(task_serializer="json", task_ignore_result=False)
    return app


def _connection(broker: Broker) -> Connection:
    """Its transport decides by what words it is told to be impatient."""
    # Not at the top, as above.
    from kombu import Connection

    is_amqp = broker.url.startswith("amqp")
    patience = ("read_timeout", "write_timeout") if is_amqp else ("socket_timeout",)
    options = {**dict.fromkeys(patience, ANSWER_S), **broker.options}
    if not is_amqp:
        options["socket_connect_timeout"] = CONNECT_S
    return Connection(broker.url, ssl=broker.use_ssl or False, connect_timeout=CONNECT_S, transport_options=options)
