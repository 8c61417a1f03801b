"""What needs a person, as sentences with the one next step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """``tone`` is ``bad``, ``warn``, ``info`` or ``act``; ``link`` is what the button to ``href`` says."""

    tone: str
    text: str
    note: str = ""
    href: str = ""
    link: str = "Open"
