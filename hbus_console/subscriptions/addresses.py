"""Where a subscription's page is."""

from __future__ import annotations

from django.urls import reverse

from engine.core.subject import Subject


def subscription(subject: Subject) -> str:
    """The page of a subscription."""
    return reverse("subscriptions:detail", args=[subject.namespace, subject.name])
