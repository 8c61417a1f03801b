"""The rules a new installation begins with. They are nobody's in particular: every editor may change them."""

from __future__ import annotations

from django.db import transaction

from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts.models import Evaluation
from hbus_console.alerts.services.rules import RuleDraft, create_rule

DEFAULTS = (
    RuleDraft(
        "Dead letters wait for a decision",
        "dead_letters",
        1,
        clear_s=0,
        advice="Open the group under Dead letters, read one timeline, mend the cause, redrive or discard.",
    ),
    RuleDraft(
        "Many messages die at once",
        "dead_letter_rate",
        20,
        window_s=300,
        severity="critical",
        clear_s=300,
        advice="One cause for all? Pause the subscription before more messages run out of attempts.",
    ),
    RuleDraft(
        "Dead letters have reached their limit",
        "dead_letter_limit",
        100,
        severity="critical",
        clear_s=0,
        advice="None is removed. Mend the cause, then redrive or discard; until then the database grows.",
    ),
    RuleDraft(
        "Keys are parked",
        "parked",
        1,
        clear_s=0,
        advice="Open the subscription's order, look why each key's head failed, and retry, skip or bury it.",
    ),
    RuleDraft(
        "Messages wait too long",
        "oldest",
        300,
        for_s=120,
        advice="Look at the subscription: do its consumers live, does its handler hang, is it retrying?",
    ),
    RuleDraft(
        "A backlog grows",
        "lag",
        10_000,
        for_s=300,
        clear_below=5_000,
        advice="Add consumers or raise the concurrency, or find out what slowed the handler down.",
    ),
    RuleDraft(
        "Publishes fail",
        "publish_failures",
        1,
        window_s=300,
        severity="critical",
        clear_s=120,
        advice="Is the store up, and not full? The cluster page says so. Producers must repeat what failed.",
    ),
    RuleDraft(
        "A breaker is open",
        "breaker_open",
        30,
        clear_s=30,
        advice="The handler failed too often and is not called. What it depends on is probably away.",
    ),
    RuleDraft(
        "A topic fell silent",
        "silent_topic",
        60,
        severity="info",
        enabled=False,
        advice="Switch this rule on for topics that are never quiet for an hour, and ask their producers.",
    ),
)


@transaction.atomic
def ensure_defaults() -> int:
    """Make them with the first start; returns how many were made. Who deletes them does not get them again."""
    state, _ = Evaluation.objects.select_for_update().get_or_create(pk=1)
    if state.defaults_made:
        return 0
    for draft in DEFAULTS:
        create_rule(SYSTEM, draft, "every installation begins with these")
    state.defaults_made = True
    state.save(update_fields=["defaults_made"])
    return len(DEFAULTS)
