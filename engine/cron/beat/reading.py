"""``beat_schedule`` of a Celery app, said so that a job can be made of each entry; what no job can say is told.

Run as ``python -m engine.cron.beat MODULE:APP FILE`` it writes what it found into ``FILE``, as JSON: the app is
somebody else's code, with settings of its own, and is loaded in a process of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from celery.backends.base import DisabledBackend
from celery.beat import BeatLazyFunc, ScheduleEntry, Scheduler
from celery.schedules import crontab
from kombu import Queue

from engine.core.error_text import text_of, words_of
from engine.core.errors import BadInput
from engine.cron.beat.rules import expression_of, zone_of

#: What an entry may say.
_SAID = frozenset({"task", "schedule", "args", "kwargs", "options", "relative"})
#: Options that a job has too, as they are.
CARRIED = ("expires", "priority", "time_limit", "soft_time_limit")
#: Options without which the same task arrives: what each of them is, for a note.
_HARMLESS = {
    "retry": "how often a beat tries to hand it over",
    "retry_policy": "how often a beat tries to hand it over",
    "compression": "how the message is packed",
    "shadow": "the name that logs of workers show",
}
#: What an option may be that is what a job's message is anyway.
_AS_IT_IS = {"serializer": ("json", "application/json"), "delivery_mode": (2, "persistent")}
_JSON = {"json", "application/json"}


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """One entry. ``options`` are those of a job that sends a Celery task; ``notes`` say what differs and harms not."""

    name: str
    task: str
    expression: str
    #: Whether it is a crontab, to which the app's deadline for what comes late applies.
    is_crontab: bool
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class EntryProblem:
    """Why no job can be made of an entry; of an empty name it is the app that is at fault."""

    entry: str
    what: str
    remedy: str


@dataclass(slots=True)
class BeatReading:
    """All that was found."""

    zone: str = "UTC"
    #: Crontabs that come later than so many seconds are let go; ``None``: Celery catches up with the last.
    deadline_s: float | None = None
    entries: list[ReadEntry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[EntryProblem] = field(default_factory=list)

    def refuse(self, entry: str, error: BadInput) -> None:
        self.problems.append(EntryProblem(entry, error.what, error.remedy))


def read_app(app: Any) -> BeatReading:
    """All entries of an app whose modules are loaded, and all that is wrong with them."""
    reading = BeatReading()
    for check in (_read_zone, _check_wire, _note_scheduler):
        try:
            check(app, reading)
        except BadInput as error:
            reading.refuse("", error)
    for name, said in _entries(app, reading).items():
        try:
            reading.entries.append(_read_entry(app, str(name), said, reading.zone))
        except BadInput as error:
            reading.refuse(str(name), error)
    return reading


def _read_zone(app: Any, reading: BeatReading) -> None:
    reading.zone = zone_of(app)
    reading.deadline_s = app.conf.beat_cron_starting_deadline


def _check_wire(app: Any, reading: BeatReading) -> None:
    """A job sends JSON, to a queue of the name that Celery gives it."""
    if not _JSON & set(app.conf.accept_content or ()):
        raise BadInput(
            "Its workers take no JSON, and a job sends its task as JSON.",
            remedy="Add 'json' to accept_content.",
            field="accept_content",
        )
    if (app.conf.broker_transport_options or {}).get("global_keyprefix"):
        raise BadInput(
            "Its queues have a global_keyprefix, which a job does not know.",
            remedy="Let its workers read queues without one.",
            field="broker_transport_options",
        )


def _note_scheduler(app: Any, reading: BeatReading) -> None:
    if (named := app.conf.beat_scheduler) != "celery.beat:PersistentScheduler":
        reading.notes.append(f"What {named} keeps elsewhere than in beat_schedule is not read.")


def _entries(app: Any, reading: BeatReading) -> dict[str, Any]:
    """Those of the app, with those that Celery's beat adds of itself."""
    found = dict(app.conf.beat_schedule or {})
    try:
        own = Scheduler(app, lazy=True)
        own.install_default_entries(found)
    except Exception as error:  # noqa: BLE001 - its backend is code of others; told
        what = f"Which results it keeps cannot be found out: {text_of(error)}."
        reading.refuse("", BadInput(what, remedy="Install what its result_backend needs.", field="result_backend"))
        return found
    if isinstance(app.backend, DisabledBackend):
        added = set(own.schedule) - set(found)
        reading.notes += [
            f"{name}, which Celery's beat adds, does nothing without results: left out." for name in added
        ]
        return found
    return {**own.schedule, **found}


def _read_entry(app: Any, name: str, said: Any, zone_name: str) -> ReadEntry:
    if isinstance(said, ScheduleEntry):
        said = {key: value for key, value in vars(said).items() if key in _SAID}
    if not isinstance(said, Mapping):
        raise BadInput("It is no mapping.", remedy="Write {'task': …, 'schedule': …}.")
    if unknown := sorted(set(map(str, said)) - _SAID):
        raise BadInput(f"It says {unknown[0]!r}, which no entry has.", remedy=f"It may say {', '.join(sorted(_SAID))}.")
    task, schedule = said.get("task"), said.get("schedule")
    if not isinstance(task, str) or not task:
        raise BadInput("It names no task.", remedy="Write task.")
    expression = expression_of(schedule, said.get("relative", False), zone_name)
    args = _plain(said.get("args") or [], "args")
    kwargs = _plain(said.get("kwargs") or {}, "kwargs")
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise BadInput("Its args are no list, or its kwargs no mapping.", remedy="Write them so.")
    options, notes = _options(app, task, args, kwargs, said.get("options") or {})
    if expression.startswith("@every"):
        notes.append("Its periods are counted from 1970-01-01 00:00 UTC; Celery counts from the start of its beat.")
    return ReadEntry(name, task, expression, isinstance(schedule, crontab), args, kwargs, options, notes)


def _options(
    app: Any, task: str, args: list[Any], kwargs: dict[str, Any], said: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """What Celery would send it with: the entry's own before the task's, and the queue that its routes lead to."""
    known = app.tasks.get(task)
    usual = {} if known is None else {key: each for key, each in known._get_exec_options().items() if each is not None}
    try:
        found = dict(app.amqp.router.route({**usual, **said}, task, args, kwargs, known))
    except Exception as error:
        # Routers are code of others.
        raise BadInput(f"Its routes lead nowhere: {words_of(error)}.", remedy="Mend task_routes.") from error
    options: dict[str, Any] = {}
    notes = []
    queue = _queue(found)
    if queue != "celery":
        options["queue"] = queue
    for name, value in found.items():
        if value is None or value in _AS_IT_IS.get(name, ()):
            continue
        if name in _HARMLESS:
            notes.append(f"Its option {name} is left out: {_HARMLESS[name]}.")
        elif name not in CARRIED:
            raise BadInput(
                f"Its option {name!r} cannot be said of a job.",
                remedy=f"Known are queue, {', '.join(CARRIED)}. Say it at the task, or leave the entry with Celery.",
            )
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"Its option {name} is no number.", remedy="Write a number.")
        else:
            options[name] = value
    return options, notes


def _queue(found: dict[str, Any]) -> str:
    """The queue's name; what only repeats it is taken out of ``found``."""
    queue = found.pop("queue", None)
    if not isinstance(queue, Queue):
        queue = Queue(str(queue or "celery"))
    if queue.exchange is not None and queue.exchange.type == "fanout":
        raise BadInput(
            f"Its queue {queue.name} is a broadcast, which every worker gets.", remedy="Send it to a queue of its own."
        )
    exchange = getattr(found.get("exchange"), "name", found.get("exchange"))
    same = (queue.name, queue.routing_key, "", None)
    if found.get("routing_key") in same and exchange in (*same, queue.exchange.name if queue.exchange else None):
        found.pop("routing_key", None)
        found.pop("exchange", None)
    return str(queue.name)


def _plain(value: Any, where: str) -> Any:
    """``value`` as JSON keeps it. Raises ``BadInput`` where JSON would make something else of it."""
    match value:
        case BeatLazyFunc():
            raise BadInput(
                f"Its {where} are computed when it is sent (BeatLazyFunc).", remedy="Let the task compute them."
            )
        case None | bool() | str():
            return value
        case int() if abs(value) < 2**63:
            return int(value)
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return [_plain(each, where) for each in value]
        case Mapping() if all(isinstance(key, str) for key in value):
            return {str(key): _plain(each, where) for key, each in value.items()}
    raise BadInput(
        f"Its {where} hold a {type(value).__name__} that JSON does not have as it is.",
        remedy="Write texts, numbers, true, false, null, lists, and mappings of texts.",
    )
