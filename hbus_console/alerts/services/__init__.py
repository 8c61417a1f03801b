"""The one way to change rules, channels, alerts and silences: page, API and first start all call these."""

from hbus_console.alerts.services.acts import acknowledge, end_silence, silence
from hbus_console.alerts.services.channel_draft import ChannelDraft
from hbus_console.alerts.services.channels import (
    change_channel,
    create_channel,
    delete_channel,
    rotate_secret,
    try_channel,
)
from hbus_console.alerts.services.defaults import ensure_defaults
from hbus_console.alerts.services.lookup import alert, channel, rule, silence_of
from hbus_console.alerts.services.preview import Preview, preview
from hbus_console.alerts.services.rule_draft import RuleDraft
from hbus_console.alerts.services.rules import change_rule, create_rule, delete_rule, try_rule

__all__ = [
    "ChannelDraft",
    "Preview",
    "RuleDraft",
    "acknowledge",
    "alert",
    "change_channel",
    "change_rule",
    "channel",
    "create_channel",
    "create_rule",
    "delete_channel",
    "delete_rule",
    "end_silence",
    "ensure_defaults",
    "preview",
    "rotate_secret",
    "rule",
    "silence",
    "silence_of",
    "try_channel",
    "try_rule",
]
