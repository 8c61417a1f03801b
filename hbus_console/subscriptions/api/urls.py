"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.subscriptions.api import order, subscriptions

_ONE = "topics/<str:topic>/subscriptions/<str:group>"

urlpatterns = [
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
