"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.alerts.api import alerts, channels, rules

urlpatterns = [
    path("alerts", alerts.Alerts.as_view(), name="alerts"),
    path("alerts/evaluation", alerts.EvaluationState.as_view(), name="alert-evaluation"),
    path("alerts/<int:alert_id>", alerts.OneAlert.as_view(), name="alert"),
    path("alerts/<int:alert_id>/acknowledge", alerts.Acknowledge.as_view(), name="alert-acknowledge"),
    path("alerts/<int:alert_id>/silence", alerts.SilenceAlert.as_view(), name="alert-silence"),
    path("alert-silences", alerts.Silences.as_view(), name="alert-silences"),
    path("alert-silences/<int:silence_id>", alerts.OneSilence.as_view(), name="alert-silence-one"),
    path("alert-rules", rules.Rules.as_view(), name="alert-rules"),
    path("alert-rules/preview", rules.PreviewRule.as_view(), name="alert-rule-preview"),
    path("alert-rules/<int:rule_id>", rules.OneRule.as_view(), name="alert-rule"),
    path("alert-rules/<int:rule_id>/test", rules.TryRule.as_view(), name="alert-rule-test"),
    path("alert-channels", channels.Channels.as_view(), name="alert-channels"),
    path("alert-channels/<int:channel_id>", channels.OneChannel.as_view(), name="alert-channel"),
    path("alert-channels/<int:channel_id>/test", channels.TryChannel.as_view(), name="alert-channel-test"),
    path(
        "alert-channels/<int:channel_id>/rotate-secret",
        channels.RotateSecret.as_view(),
        name="alert-channel-rotate-secret",
    ),
]
