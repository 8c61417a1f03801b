"""Where evidence is shown."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from engine.core.subject import Subject


def evidence_of(subject: Subject) -> str:
    """The page of what was told of ``subject``; for features whose engine keeps no ledger of its own."""
    return _page(subject=str(subject))


def evidence_under(correlation_id: str) -> str:
    """The page of what was told under a correlation id."""
    return _page(correlation=correlation_id)


def _page(**asked: str) -> str:
    return f"{reverse('evidence:list')}?{urlencode(asked)}"
