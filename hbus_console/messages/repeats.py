"""Messages that came more than once: published again under the same idempotency key, or delivered again after an inbox
had seen them. Found from the evidence of the repetition, which is rare and has indexes of its own."""

from __future__ import annotations

from enum import StrEnum

from engine.core.errors import BadInput
from hbus_console.messages.by_event import Happening
from hbus_console.messages.models import DEDUPLICATED, LedgerEvent


class Repeated(StrEnum):
    """Which repetition is looked for."""

    #: It does not matter.
    UNASKED = ""
    ANY = "any"
    #: A publish that repeated an idempotency key: nothing was stored.
    PUBLISH = "publish"
    #: A delivery of what the subscription's inbox had seen: the handler was not run.
    DELIVERY = "delivery"

    @classmethod
    def read(cls, text: str) -> Repeated:
        """From a query parameter. Raises ``BadInput``."""
        try:
            return cls(text.strip())
        except ValueError as error:
            remedy = "Ask for any, publish or delivery, or leave it out."
            raise BadInput(f"There is no repetition {text[:40]!r}.", remedy=remedy, field="repeated") from error

    def happening(self) -> Happening:
        """The events that tell of it."""
        found = LedgerEvent.objects.filter(DEDUPLICATED)
        if self is Repeated.PUBLISH:
            found = found.filter(subscription="")
        elif self is Repeated.DELIVERY:
            found = found.exclude(subscription="")
        return Happening(found, found)
