"""What a store answers that keeps nothing of what was settled: a pipe has no past."""

from __future__ import annotations

from typing import NoReturn

from engine.bus.transport import Page
from engine.core.errors import BadInput


def no_history(what: str, field: str) -> NoReturn:
    """Refuse to go, or to look, where there is nothing. Raises :class:`BadInput` with the remedy."""
    raise BadInput(
        f"{what}: its transport keeps no history.",
        remedy="Look the messages up in the ledger, or carry the topic on Redis Streams.",
        field=field,
    )


class NotBrowsable:
    """For the :class:`~engine.bus.transport.Admin` of a transport that does not declare ``browse``."""

    def browse(self, topic: str, *, after: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        """Raises :class:`BadInput`."""
        no_history(f"{topic} cannot be read without consuming it", "topic")

    def read(self, topic: str, position: str) -> None:
        """Raises :class:`BadInput`."""
        no_history(f"{topic} cannot be read without consuming it", "topic")
