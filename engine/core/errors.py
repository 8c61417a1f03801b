"""Errors say what happened, to what, and what to do about it."""

from __future__ import annotations

from typing import ClassVar


class HbusError(Exception):
    """Base of every error hbus raises on purpose.

    ``what`` is one sentence in the operator's words; ``remedy`` is what to do; ``field`` names the input at fault.
    ``title`` names the kind of error in a few words, for answers that have a heading.
    """

    title: ClassVar[str] = "Failed"

    def __init__(self, what: str, *, remedy: str = "", field: str = "") -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.what = what
        self.remedy = remedy
        self.field = field


class BadInput(HbusError):
    """The caller's input was refused; nothing was changed."""

    title = "Refused"


class NotThere(BadInput):
    """The thing asked for does not exist, or lies outside what the caller may see."""

    title = "Not found"


class Conflict(BadInput):
    """The request is fine, but what it is about has moved on."""

    title = "Conflict"


class Outdated(Conflict):
    """A change was made from what somebody else has changed meanwhile; nothing was changed."""

    title = "Changed meanwhile"


class ConfigurationError(HbusError):
    """A setting is missing, malformed or asks for what the chosen backend cannot do."""

    title = "Not configured"


class Unavailable(HbusError):
    """A store or a peer could not be reached; nothing is known to have changed. Trying again later is safe."""

    title = "Unavailable"


class OutcomeUnknown(Unavailable):
    """The answer was lost after the request was sent: it may have been done. Repeat it only where that is safe."""

    title = "Outcome unknown"


class StateLost(HbusError):
    """What a store kept for somebody is gone: flushed, failed over or deleted by hand."""

    title = "State lost in the store"
