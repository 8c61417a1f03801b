from __future__ import annotations

from django.urls import path

from hbus_console.topics.views import (
    lists,
    order,
    publish,
    schema,
    subscription,
    subscription_forms,
    teams,
    topic,
    topic_forms,
)

app_name = "topics"
_ONE = "subscriptions/<str:topic>/<str:group>"
urlpatterns = [
    path("topics/", lists.topics, name="list"),
    path("topics/<str:name>/", topic.detail, name="detail"),
    path("topics/<str:name>/schema/", schema.schema, name="schema"),
    path("topics/<str:name>/settings/", topic_forms.settings, name="settings"),
    path("topics/<str:name>/connect/", topic.connect, name="connect"),
    path("topics/<str:name>/audit/", topic.trail, name="trail"),
    path("topics/<str:name>/pause/", topic.pause, name="pause"),
    path("topics/<str:name>/resume/", topic.resume, name="resume"),
    path("topics/<str:name>/delete/", topic.delete, name="delete"),
    path("topics/<str:topic>/subscribe/", subscription_forms.new, name="subscription-new"),
    # Outside topics/, where every name belongs to a topic.
    path("new-topic/", topic_forms.new, name="new"),
    path("teams/", teams.teams, name="teams"),
    path("publish/", publish.publish, name="publish"),
    path("subscriptions/", lists.subscriptions, name="subscriptions"),
    path(f"{_ONE}/", subscription.detail, name="subscription"),
    path(f"{_ONE}/settings/", subscription_forms.settings, name="subscription-settings"),
    path(f"{_ONE}/pause/", subscription.pause, name="subscription-pause"),
    path(f"{_ONE}/drain/", subscription.drain, name="subscription-drain"),
    path(f"{_ONE}/drain/state/", subscription.drain_state, name="subscription-drain-state"),
    path(f"{_ONE}/resume/", subscription.resume, name="subscription-resume"),
    path(f"{_ONE}/breaker/", subscription.breaker, name="subscription-breaker"),
    path(f"{_ONE}/order/", order.order, name="subscription-order"),
    path(f"{_ONE}/unpark/", order.unpark, name="subscription-unpark"),
    path(f"{_ONE}/follow-code/", subscription.follow_code, name="subscription-follow-code"),
    path(f"{_ONE}/rotate-secret/", subscription.rotate_secret, name="subscription-rotate-secret"),
    path(f"{_ONE}/delete/", subscription.delete, name="subscription-delete"),
]
