"""Where a topic's page is."""

from __future__ import annotations

from django.urls import reverse

from engine.core.subject import Subject


def topic(subject: Subject) -> str:
    """The page of a topic."""
    return reverse("topics:detail", args=[subject.namespace])
