"""Acts on consumer workers, as command, page and API call them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery.exceptions import OperationalError as CeleryUnreachable
from django.db import transaction
from kombu.exceptions import OperationalError as KombuUnreachable
from redis.exceptions import RedisError

from engine.core.error_text import words_of
from engine.core.errors import BadInput, OutcomeUnknown, Unavailable
from hbus_console import checks
from hbus_console.access.permissions import GLOBAL, Actor, require
from hbus_console.audit.models import OUTCOME_UNKNOWN
from hbus_console.audit.services import record
from hbus_console.cluster.feature import CLUSTER_OPERATE, CLUSTER_VIEW
from hbus_console.consumers.celery_app import app
from hbus_console.consumers.control import chooser
from hbus_console.consumers.worker_names import WORKER
from hbus_console.subjects import readable
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE

#: Seconds to wait for the answers of all workers.
ANSWER_S = 1.5
ACTS = ("pause", "resume", "drain")
#: So they say of a connection that does not come about.
_NOT_SENT = (CeleryUnreachable, KombuUnreachable)


def worker_status(actor: Actor, worker: str = "") -> dict[str, dict[str, Any]]:
    """Worker → its report (see ``HostedRole.report``). Raises ``Unavailable`` when the broker cannot be asked."""
    require(actor, CLUSTER_VIEW)
    try:
        return _ask("hbus_status", {}, worker)
    except OutcomeUnknown as error:
        # A question: nothing was done.
        raise Unavailable(error.what, remedy="Look at the store.") from error


def steer(
    actor: Actor, act: str, *, topic: str = "", group: str = "", worker: str = "", reason: str = ""
) -> dict[str, dict[str, Any]]:
    """Pause, resume or drain subscriptions on workers, until those end or are resumed; returns each one's answer.

    An answer with an ``error`` says that this worker has not done it; only what others did is recorded as done. This
    empties or holds a *worker*; to hold a subscription everywhere and lastingly, pause the subscription. Raises
    ``Forbidden``, ``BadInput``, ``Unavailable``, or ``OutcomeUnknown`` where some may have done it.
    """
    require(actor, SUBSCRIPTION_OPERATE if topic else CLUSTER_OPERATE, topic or GLOBAL)
    if act not in ACTS:
        raise BadInput(f"Workers cannot {act}.", remedy=f"Choose one of {', '.join(ACTS)}.", field="act")
    reason = checks.reason(reason, required=act != "resume")
    lost: OutcomeUnknown | None = None
    with transaction.atomic():
        # Asked for inside the transaction: what could not be sent is not recorded as done.
        try:
            answers = _ask(f"hbus_{act}", {"topic": topic, "group": group}, worker)
        except OutcomeUnknown as error:
            answers, lost = {}, error
        done = sorted(name for name, answer in answers.items() if "error" not in answer)
        # Who has not answered in time may do it yet.
        if done or not answers:
            record(
                actor,
                f"worker.{act}{OUTCOME_UNKNOWN if lost else ''}",
                readable("worker", topic, worker or "all"),
                reason=reason,
                after={"topic": topic, "group": group, "workers": done, **({"why": lost.what} if lost else {})},
            )
    if lost:
        raise lost
    return answers


def still_at_work(
    actor: Actor, workers: Iterable[str], *, topic: str = "", group: str = ""
) -> dict[str, dict[tuple[str, str], int]]:
    """Of ``workers`` that drain: worker → subscription → handlers that still run. A worker without any is left out.

    One that does not answer is there with nothing in it: nobody can tell. Raises ``Forbidden`` or ``Unavailable``.
    """
    reports, chosen = worker_status(actor), chooser(topic, group)
    busy: dict[str, dict[tuple[str, str], int]] = {}
    for worker in workers:
        if worker not in reports:
            busy[worker] = {}
            continue
        lines = {
            (str(line["topic"]), str(line["group"])): int(line["in_flight"])
            for line in reports[worker].get("consumers", ())
        }
        if left := {key: running for key, running in lines.items() if chosen(key)}:
            busy[worker] = left
    return busy


def _ask(command: str, arguments: dict[str, Any], worker: str) -> dict[str, dict[str, Any]]:
    # Workers of other roles know none of our commands.
    to: dict[str, Any] = (
        {"destination": [worker], "limit": 1} if worker else {"pattern": f"{WORKER}*", "matcher": "glob"}
    )
    try:
        replies = app.control.broadcast(command, arguments=arguments, reply=True, timeout=ANSWER_S, **to)
    except _NOT_SENT as error:
        raise Unavailable(f"The workers cannot be asked: {words_of(error)}.", remedy="Look at the store.") from error
    except (RedisError, OSError) as error:
        raise OutcomeUnknown(
            f"The workers may have been asked, and nobody knows what they answered: {words_of(error)}.",
            remedy="Ask again: what is done already is not done twice.",
        ) from error
    return {name: answer for reply in replies or () for name, answer in reply.items()}
