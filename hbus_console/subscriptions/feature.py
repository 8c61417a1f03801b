"""Who reads a topic, and how failures are met."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, Owned, SubjectKind

SUBSCRIPTION_OPERATE = Act("subscription.operate", Role.OPERATOR, "pause, resume or drain subscriptions", about="topic")
SUBSCRIPTION_EDIT = Act("subscription.edit", Role.EDITOR, "edit subscriptions", about="topic")
SUBSCRIPTION_GOVERN = Act("subscription.govern", Role.GOVERNOR, "govern subscriptions", about="topic")

FEATURE = Feature(
    name="subscriptions",
    offers=("holding", "models", "services", "standing", "targets"),
    menu=(MenuEntry("subscriptions", "Subscriptions", "outline/git-fork", "subscriptions:list", "s", "Bus", 30),),
    pages=(Mount("", "hbus_console.subscriptions.urls"),),
    api=("hbus_console.subscriptions.api",),
    acts=(
        SUBSCRIPTION_OPERATE,
        SUBSCRIPTION_EDIT,
        SUBSCRIPTION_GOVERN,
    ),
    subjects=(
        SubjectKind(
            "subscription",
            "subscription",
            address="hbus_console.subscriptions.addresses:subscription",
            local=True,
            within="topic",
            holding="hbus_console.subscriptions.holding:holding",
        ),
    ),
    owned=(
        Owned(
            "subscriptions",
            "topic__name",
            text="hbus_console.subscriptions.owned:text",
            address="hbus_console.subscriptions.owned:address",
            url_name="subscriptions:list",
        ),
    ),
    audit_words={
        "subscription.declare": "took over from code the subscription",
        "subscription.follow_code": "handed back to code the subscription",
        "subscription.unpark_retry": "unparked a key of the subscription",
        "subscription.unpark_skip": "skipped the head of a parked key of the subscription",
        "subscription.unpark_dead": "buried the head of a parked key of the subscription",
        "subscription.breaker_open": "opened the breaker of the subscription",
        "subscription.breaker_try": "let one message through the open breaker of the subscription",
        "subscription.breaker_close": "closed the breaker of the subscription",
        "subscription.rotate_secret": "gave a new secret to the subscription",
    },
    duties=("hbus_console.subscriptions.duties:topic_reconciler",),
    alerts=("hbus_console.subscriptions.alerts:KINDS",),
    concerns=("hbus_console.subscriptions.concerns:concerns",),
    search=("hbus_console.subscriptions.finding:find",),
)
