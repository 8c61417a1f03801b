"""Where an alert's page is, and those of what alerts are made of."""

from __future__ import annotations

from django.urls import reverse

from engine.core.numbers import whole
from engine.core.subject import Subject


def alert(subject: Subject) -> str:
    """The page of one alert; its name is its number."""
    number = whole(subject.name)
    return "" if number is None else reverse("alerts:alert", args=[number])


def alert_rule(subject: Subject) -> str:
    """The rules: one may have been renamed or deleted since it was spoken of."""
    return reverse("alerts:rules")


def alert_channel(subject: Subject) -> str:
    """The channels, likewise."""
    return reverse("alerts:channels")
