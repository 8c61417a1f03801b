"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.topics.api import order, subscriptions, teams, topics

_ONE = "topics/<str:topic>/subscriptions/<str:group>"

urlpatterns = [
    path("teams", teams.Teams.as_view(), name="teams"),
    path("teams/<str:team>", teams.OneTeam.as_view(), name="team"),
    path("asyncapi", topics.AsyncApi.as_view(), name="asyncapi"),
    path("topics", topics.Topics.as_view(), name="topics"),
    path("topics/<str:topic>", topics.OneTopic.as_view(), name="topic"),
    path("topics/<str:topic>/pause", topics.PauseTopic.as_view(), name="topic-pause"),
    path("topics/<str:topic>/resume", topics.ResumeTopic.as_view(), name="topic-resume"),
    path("topics/<str:topic>/schemas", topics.Schemas.as_view(), name="schemas"),
    path("topics/<str:topic>/schemas/check", topics.CheckSchema.as_view(), name="schema-check"),
    path("topics/<str:topic>/schemas/<int:version>", topics.OneSchema.as_view(), name="schema"),
    path("topics/<str:topic>/subscriptions", subscriptions.Subscriptions.as_view(), name="subscriptions"),
    path("subscriptions", subscriptions.AllSubscriptions.as_view(), name="all-subscriptions"),
    path(_ONE, subscriptions.OneSubscription.as_view(), name="subscription"),
    path(f"{_ONE}/pause", subscriptions.Pause.as_view(), name="subscription-pause"),
    path(f"{_ONE}/resume", subscriptions.Resume.as_view(), name="subscription-resume"),
    path(f"{_ONE}/drain", subscriptions.Drain.as_view(), name="subscription-drain"),
    path(f"{_ONE}/breaker", subscriptions.Breaker.as_view(), name="subscription-breaker"),
    path(f"{_ONE}/order", order.Order.as_view(), name="subscription-order"),
    path(f"{_ONE}/unpark", order.Unpark.as_view(), name="subscription-unpark"),
    path(f"{_ONE}/follow-code", subscriptions.FollowCode.as_view(), name="subscription-follow-code"),
    path(f"{_ONE}/rotate-secret", subscriptions.RotateSecret.as_view(), name="subscription-rotate-secret"),
]
