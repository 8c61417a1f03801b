from __future__ import annotations

from django.urls import path

from hbus_console.subscriptions.views import forms, lists, order, subscription

app_name = "subscriptions"
_ONE = "subscriptions/<str:topic>/<str:group>"
urlpatterns = [
    path("topics/<str:topic>/subscribe/", forms.new, name="new"),
    path("subscriptions/", lists.subscriptions, name="list"),
    path(f"{_ONE}/", subscription.detail, name="detail"),
    path(f"{_ONE}/settings/", forms.settings, name="settings"),
    path(f"{_ONE}/pause/", subscription.pause, name="pause"),
    path(f"{_ONE}/drain/", subscription.drain, name="drain"),
    path(f"{_ONE}/drain/state/", subscription.drain_state, name="drain-state"),
    path(f"{_ONE}/resume/", subscription.resume, name="resume"),
    path(f"{_ONE}/breaker/", subscription.breaker, name="breaker"),
    path(f"{_ONE}/order/", order.order, name="order"),
    path(f"{_ONE}/unpark/", order.unpark, name="unpark"),
    path(f"{_ONE}/follow-code/", subscription.follow_code, name="follow-code"),
    path(f"{_ONE}/rotate-secret/", subscription.rotate_secret, name="rotate-secret"),
    path(f"{_ONE}/delete/", subscription.delete, name="delete"),
]
