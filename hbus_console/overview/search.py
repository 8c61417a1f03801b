"""What the search box finds: what each feature finds."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from hbus_console.access.permissions import Actor
from hbus_console.registry.asking import ask
from hbus_console.ui.finding import Hit, HitGroup


def find(who: Actor, text: str) -> list[HitGroup]:
    """Everything ``who`` may see that ``text`` leads to; groups without a hit are left out."""
    text = text.strip()
    if not text:
        return []
    answers = ask(lambda feature: feature.search, who, text)
    found: list[HitGroup] = [group for answer in answers.found for group in answer if group.hits]
    if answers.silent:
        found.append(_silent(answers.silent, text))
    return found


def _silent(features: list[str], text: str) -> HitGroup:
    again = f"{reverse('overview:search')}?{urlencode({'q': text})}"
    hits = [Hit(name, "could not be searched; the log says why", again) for name in features]
    return HitGroup("Not searched", hits, more=False)
