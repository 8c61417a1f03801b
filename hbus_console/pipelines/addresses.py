"""Where the subjects of the archive lie."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from engine.core.subject import Subject


def query(subject: Subject) -> str:
    """The page of queries with that saved one in it."""
    return f"{reverse('pipelines:query')}?{urlencode({'saved': subject.name})}"
