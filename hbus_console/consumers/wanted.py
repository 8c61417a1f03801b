"""Which subscriptions a worker should run: the rows, as far as this process has their handlers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import redis
from django.conf import settings

from engine.core.errors import BadInput, ConfigurationError
from hbus_console.access.permissions import GLOBAL, covers
from hbus_console.access.scopes import valid_scope
from hbus_console.cluster import services
from hbus_console.consumers.factory import consumer_for
from hbus_console.consumers.host import Key, Wanted
from hbus_console.consumers.policies import has_handler
from hbus_console.database import fresh_connections
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import policy_of, sync_registrations

#: Why a subscription whose handler is in another worker does not run here.
NO_HANDLER = "this worker has no handler registered for it"
#: How many of these are named: a worker of a few handlers may have thousands, and stamps every other second.
NAMED = 20
#: Why one does not that other workers are there for. All are named: nobody else can tell which of them nobody hosts.
ELSEWHERE = "HBUS_CONSUME_TOPICS of this worker leaves its topic to others"


def idle_report(reasons: Mapping[Key, str]) -> dict[str, Any]:
    """Subscriptions that do not run here, and why, JSON-able: ``idle`` names them all, but for want of a handler only
    the first :data:`NAMED`; ``idle_unnamed`` is how many more of these there are."""
    without = sorted(key for key, why in reasons.items() if why == NO_HANDLER)
    unnamed = set(without[NAMED:])
    named = [(key, why) for key, why in sorted(reasons.items()) if key not in unnamed]
    return {
        "idle": [{"topic": topic, "group": group, "why": why} for (topic, group), why in named],
        "idle_unnamed": len(unnamed),
    }


def hosted_topics() -> tuple[str, ...]:
    """The scopes of ``HBUS_CONSUME_TOPICS``, all when it is empty; raises ``ConfigurationError`` for what is none."""
    try:
        return tuple(valid_scope(each) for each in settings.HBUS_CONSUME_TOPICS) or (GLOBAL,)
    except BadInput as error:
        raise ConfigurationError(
            f"HBUS_CONSUME_TOPICS: {error.what}", remedy=error.remedy, field="HBUS_CONSUME_TOPICS"
        ) from error


def hosted_now() -> frozenset[Key] | None:
    """What some living worker runs, also one that has other handlers than this; ``None`` where nobody can tell."""
    try:
        nodes = services.nodes()
    except (redis.RedisError, ConfigurationError):
        return None
    lines = [line for node in nodes if not node.silent for line in node.detail.get("consumers") or ()]
    return frozenset((str(line.get("topic")), str(line.get("group"))) for line in lines if isinstance(line, Mapping))


class WantedSubscriptions:
    """Called by the host with every look; raises what the database raises.

    Declarations in code are brought into the rows first, so that a new ``@subscription`` runs without further steps.
    """

    def __init__(self) -> None:
        #: Subscriptions that cannot run here, and why; replaced by each call.
        self.problems: dict[Key, str] = {}
        self._scopes = hosted_topics()
        self._brought: dict[Key, tuple[int, Sequence[str]]] = {}

    def __call__(self) -> dict[Key, Wanted]:
        problems: dict[Key, str] = {}
        wanted: dict[Key, Wanted] = {}
        with fresh_connections():
            synced = sync_registrations(brought=self._brought, hosted=hosted_now)
            for labels, why in (
                (synced.waiting, "its topic does not exist yet"),
                (synced.leaving, "a deleted one of its name is still being removed from the store"),
            ):
                for label in labels:
                    topic, _, group = label.rpartition("/")
                    problems[topic, group] = why
            for row in Subscription.objects.select_related("topic"):
                key = (row.topic.name, row.group)
                if not any(covers(scope, row.topic.name) for scope in self._scopes):
                    problems[key] = ELSEWHERE
                elif has_handler(row):
                    wanted[key] = Wanted(
                        _version(row),
                        row.paused or row.topic.paused,
                        partial(consumer_for, row),
                        row.concurrency,
                    )
                else:
                    problems[key] = NO_HANDLER
        self.problems = problems
        return wanted


def _version(row: Subscription) -> tuple[Any, ...]:
    """Whatever of the row (and its topic) a running consumer has built in; its concurrency it has not."""
    return (
        row.pk,
        replace(policy_of(row), concurrency=1),
        row.topic.transport,
        row.topic.leaving,
        row.handler,
        row.webhook_url,
        row.webhook_secret,
        row.webhook_timeout_s,
    )
