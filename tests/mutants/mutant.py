"""A fault that is planted into a promise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """``before`` stands in ``file`` once and becomes ``after``."""

    name: str
    #: Which promise it breaks, as a sentence.
    breaks: str
    file: str
    before: str
    after: str
    #: Files or tests, the nearest first.
    noticed_by: tuple[str, ...]
