"""What can be wrong with a spool."""

from __future__ import annotations

from engine.core.errors import StateLost, Unavailable


class SpoolBusy(Unavailable):
    """Another process is appending to the spool of the topic."""

    title = "The spool is in use"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"Another process is filling the spool of {topic}.", remedy="Nothing is to be done: it does it."
        )
        self.untouched = True


class SpoolDamaged(StateLost):
    """A file of a spool is missing, or is not what was written."""

    title = "The spool is damaged"
