"""Rules, and whom they tell."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, SubjectKind

ALERT_OPERATE = Act("alert.operate", Role.OPERATOR, "acknowledge or silence alerts")
ALERT_EDIT = Act("alert.edit", Role.EDITOR, "edit alert rules")
ALERT_CHANNEL = Act("alert.channel", Role.GOVERNOR, "edit the channels of alerts")

FEATURE = Feature(
    name="alerts",
    menu=(
        MenuEntry(
            "alerts",
            "Alerts",
            "outline/bell",
            "alerts:list",
            "l",
            "Governance",
            30,
            badge="hbus_console.alerts.standing:firing",
            badge_live="alerts",
        ),
    ),
    pages=(Mount("alerts/", "hbus_console.alerts.urls"),),
    api=("hbus_console.alerts.api",),
    acts=(
        ALERT_OPERATE,
        ALERT_EDIT,
        ALERT_CHANNEL,
    ),
    subjects=(
        SubjectKind("alert", "alert", address="hbus_console.alerts.addresses:alert"),
        SubjectKind("alert-rule", "alert rule", address="hbus_console.alerts.addresses:alert_rule"),
        SubjectKind("alert-channel", "alert channel", address="hbus_console.alerts.addresses:alert_channel"),
    ),
    audit_words={
        "alert.acknowledge": "acknowledged the alert",
        "alert.silence": "silenced the alert",
        "alert.silence.end": "ended a silence on",
        "alert_rule.test": "test-fired the alert rule",
        "alert_channel.test": "sent a test through the alert channel",
        "alert_channel.rotate_secret": "gave a new secret to the alert channel",
    },
    duties=(
        "hbus_console.alerts.evaluation:AlertEvaluator",
        "hbus_console.alerts.delivery:AlertNotifier",
    ),
    concerns=("hbus_console.alerts.concerns:concerns",),
    live=("hbus_console.alerts.live:cells",),
    prepare=("hbus_console.alerts.prepare:prepare",),
)
