from __future__ import annotations

from django.urls import path

from hbus_console.alerts.views import alerts, channels, rules

app_name = "alerts"
urlpatterns = [
    path("", alerts.alerts, name="list"),
    path("<int:alert_id>/", alerts.alert, name="alert"),
    path("<int:alert_id>/chart/", alerts.chart, name="chart"),
    path("<int:alert_id>/acknowledge/", alerts.acknowledge, name="acknowledge"),
    path("<int:alert_id>/silence/", alerts.silence, name="silence"),
    path("silences/<int:silence_id>/end/", alerts.end_silence, name="end-silence"),
    path("rules/", rules.rules, name="rules"),
    path("rules/new/", rules.new, name="rule-new"),
    path("rules/preview/", rules.preview, name="rule-preview"),
    path("rules/<int:rule_id>/", rules.rule, name="rule"),
    path("rules/<int:rule_id>/test/", rules.test, name="rule-test"),
    path("rules/<int:rule_id>/delete/", rules.delete, name="rule-delete"),
    path("channels/", channels.channels, name="channels"),
    path("channels/<int:channel_id>/", channels.channel, name="channel"),
    path("channels/<int:channel_id>/test/", channels.test, name="channel-test"),
    path("channels/<int:channel_id>/rotate-secret/", channels.rotate_secret, name="channel-rotate-secret"),
    path("channels/<int:channel_id>/delete/", channels.delete, name="channel-delete"),
]
