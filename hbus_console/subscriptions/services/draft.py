"""The settings of a subscription, each said once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from engine.bus.policy import DEFAULT_BACKOFF_S, MOST_BREAKER_FAILURES, RetryPolicy
from engine.core.errors import BadInput
from hbus_console.drafts.setting import Choice, Flag, Lines, Owner, Seconds, Setting, Text, Whole
from hbus_console.drafts.settings import Settings
from hbus_console.subscriptions.feature import SUBSCRIPTION_EDIT, SUBSCRIPTION_GOVERN
from hbus_console.subscriptions.models import Subscription

#: The part of the pages that asks how failures are met.
POLICIES = "policies"
#: What a failed message does to those of its key behind it, in words.
FAILED_HEADS = {
    "block": "its key waits, and goes on once it is dead",
    "park": "its key waits, and is set aside in the end",
    "pass": "its key goes on at once, it comes later",
}


@dataclass(frozen=True)
class InPolicy:
    """Marks what a declaration in code also says; once a person has set one, theirs holds.

    ``path`` is where :class:`engine.bus.policy.SubscriptionPolicy` has it, and ``per`` how many of ours make one there.
    """

    path: str
    per: int = 1


@dataclass(frozen=True)
class OnlyFor:
    """Marks what only one kind of handler has."""

    handler: str


@dataclass(frozen=True)
class SubscriptionDraft:
    """A subscription as somebody wants it; ``owner`` names a team. Who answers for it is governance."""

    topic: str
    group: str
    owner: Annotated[str, Owner(act=SUBSCRIPTION_GOVERN)]
    description: Annotated[str, Lines(2_000, act=SUBSCRIPTION_EDIT)] = ""
    handler: Annotated[
        str,
        Choice(
            {"code": "a function registered under this topic and group", "webhook": "an HTTP call"},
            act=SUBSCRIPTION_EDIT,
            fixed=True,
        ),
    ] = "code"
    #: Whether it may be called is asked of the network, before the transaction.
    webhook_url: Annotated[str, Text(500, act=SUBSCRIPTION_EDIT), OnlyFor("webhook")] = ""
    webhook_timeout_s: Annotated[int, Whole(1, 300, "seconds", act=SUBSCRIPTION_EDIT), OnlyFor("webhook")] = 10
    max_attempts: Annotated[
        int,
        Whole(
            1,
            100,
            label="Attempts, the first one counted",
            help="A consumer that dies uses one up; with 1, the message it had is tried a second time.",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
        ),
        InPolicy("retry.max_attempts"),
    ] = 5
    backoff_s: Annotated[
        tuple[float, ...],
        Seconds(
            label="Seconds before attempt 2, 3, …",
            help="The last one repeats; each is spread by chance.",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
        ),
        InPolicy("retry.backoff_s"),
    ] = DEFAULT_BACKOFF_S
    concurrency: Annotated[
        int,
        Whole(1, 64, "threads", label="Threads on each node", act=SUBSCRIPTION_EDIT, part=POLICIES),
        InPolicy("concurrency"),
    ] = 4
    #: Asked for only on a topic ordered by key.
    on_failed_head: Annotated[
        str,
        Choice(FAILED_HEADS, label="When a message of a key fails", act=SUBSCRIPTION_EDIT, part=POLICIES, rare=True),
        InPolicy("on_failed_head"),
    ] = "block"
    lease_s: Annotated[
        int,
        Whole(
            1,
            3_600,
            "seconds",
            label="Lease, in seconds",
            help="Renewed while the handler works; after a crash another takes over.",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
        ),
        InPolicy("lease_s"),
    ] = 30
    transactional: Annotated[bool, Flag(act=SUBSCRIPTION_EDIT), OnlyFor("code"), InPolicy("transactional")] = False
    max_handler_s: Annotated[
        int,
        Whole(
            0,
            86_400,
            "seconds",
            label="Longest handling time, in seconds",
            help="Then the message is given up and tried again, or dead. 0: no limit.",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
            rare=True,
        ),
        InPolicy("max_handler_s"),
    ] = 0
    breaker_failures: Annotated[
        int,
        Whole(
            0,
            MOST_BREAKER_FAILURES,
            "messages",
            label="Breaker: opens after so many different messages failed",
            help="While it is open nothing is delivered and no attempt is used up. 0: no breaker.",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
            rare=True,
        ),
        InPolicy("breaker.failures"),
    ] = 20
    breaker_share: Annotated[
        int,
        Whole(
            10, 100, "percent", label="… if they are so many percent", act=SUBSCRIPTION_EDIT, part=POLICIES, rare=True
        ),
        InPolicy("breaker.share", per=100),
    ] = 80
    breaker_window_s: Annotated[
        int,
        Whole(1, 3_600, "seconds", label="… within so many seconds", act=SUBSCRIPTION_EDIT, part=POLICIES, rare=True),
        InPolicy("breaker.window_s"),
    ] = 30
    breaker_open_s: Annotated[
        int,
        Whole(
            1,
            3_600,
            "seconds",
            label="Breaker: open for so many seconds",
            help="Then one message is tried; each failure doubles the time.",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
            rare=True,
        ),
        InPolicy("breaker.open_s"),
    ] = 10
    breaker_longest_open_s: Annotated[
        int,
        Whole(
            unit="seconds",
            bounds=lambda clean: (clean["breaker_open_s"], 86_400),
            label="… at most",
            act=SUBSCRIPTION_EDIT,
            part=POLICIES,
            rare=True,
        ),
        InPolicy("breaker.longest_open_s"),
    ] = 300
    #: ``beginning``: everything the topic still holds; ``end``: only what is published from now on.
    start: str = "beginning"


SETTINGS = Settings(SubscriptionDraft)
#: The names of what a declaration in code also says.
POLICY = SETTINGS.marked(InPolicy)


def snapshot(row: Subscription) -> dict[str, Any]:
    """A subscription's settings as the audit log and the API show them; never its secret."""
    return {**SETTINGS.snapshot(row), "paused": row.paused}


def settings_for(handler: str) -> list[str]:
    """What can be changed of a subscription with that kind of handler."""
    return [name for name in SETTINGS.changeable if _handler(SETTINGS[name]) in (None, handler)]


def checked(values: Mapping[str, Any], handler: str) -> dict[str, Any]:
    """All but the owner, cleaned; a webhook's address was checked before. Raises :class:`BadInput`."""
    clean = SETTINGS.checked({**values, "handler": handler})
    RetryPolicy(clean["max_attempts"], tuple(clean["backoff_s"]))
    if handler == Subscription.Handler.WEBHOOK and clean["transactional"]:
        raise BadInput(
            "A webhook's effects lie elsewhere and cannot commit with the inbox.",
            remedy="Switch transactional off; the receiver can recognise repeats by the message id.",
            field="transactional",
        )
    if handler == Subscription.Handler.CODE and clean["webhook_url"]:
        raise BadInput("A handler in code has no address.", remedy="Leave it out.", field="webhook_url")
    return clean


def _handler(setting: Setting) -> str | None:
    return next((mark.handler for mark in setting.marks if isinstance(mark, OnlyFor)), None)
