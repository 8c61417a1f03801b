"""What needs a person now: each concern one sentence, with the one next step. The worst comes first."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.registry.asking import ask
from hbus_console.ui.concern import Concern, Look, listed


def concerns(look: Look) -> list[Concern]:
    """Everything that waits for somebody, in what ``look.actor`` may see, as :func:`listed`."""
    answers = ask(lambda feature: feature.concerns, look)
    found: list[Concern] = [concern for answer in answers.found for concern in answer]
    if answers.silent:
        found.append(_silent(answers.silent))
    return listed(found)


def _silent(features: list[str]) -> Concern:
    return Concern(
        "warn",
        f"What needs a person in {', '.join(features)} cannot be told",
        "a mistake of this version; the log of the web role has it with its traceback",
        reverse("overview:overview"),
        "Look again",
    )
