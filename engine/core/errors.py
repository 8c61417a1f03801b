"""Errors say what happened, to what, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

#: The longest sentence of an error, in characters: what it quotes may have been sent by anybody, at any length.
LONGEST_WHAT = 1_500
#: And the longest name of an input.
LONGEST_FIELD = 400


class HbusError(Exception):
    """Base of every error hbus raises on purpose.

    ``what`` is one sentence in the operator's words; ``remedy`` is what to do; ``field`` names the input at fault.
    ``title`` names the kind of error in a few words, for answers that have a heading. ``what`` and ``field`` lose their
    middle beyond :data:`LONGEST_WHAT` and :data:`LONGEST_FIELD`.
    """

    title: ClassVar[str] = "Failed"

    def __init__(self, what: str, *, remedy: str = "", field: str = "") -> None:
        self.what = _bounded(what, LONGEST_WHAT)
        self.remedy = remedy
        self.field = _bounded(field, LONGEST_FIELD)
        super().__init__(f"{self.what} {remedy}".strip())


def _bounded(text: str, limit: int) -> str:
    """``text`` without its middle where it is too long: what is wrong is said at its beginning and at its end."""
    if len(text) <= limit:
        return text
    kept = (limit - 3) // 2
    return f"{text[:kept]} … {text[-kept:]}"


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


class QuotaExceeded(HbusError):
    """Somebody may do no more of this for now; nothing was changed. ``policies`` are those that were reached, the
    narrowest first.
    """

    title = "Quota exceeded"

    def __init__(self, what: str, *, again_s: float, policies: Sequence[str] = (), field: str = "") -> None:
        #: In whole seconds: who comes sooner comes in vain.
        self.again_s = max(1, math.ceil(again_s))
        super().__init__(what, remedy=f"Try again in {self.again_s:,} s.", field=field)
        self.policies = tuple(policies)


class ConfigurationError(HbusError):
    """A setting is missing, malformed or asks for what the chosen backend cannot do."""

    title = "Not configured"


class Unavailable(HbusError):
    """A store or a peer could not be reached; nothing is known to have changed. Trying again later is safe."""

    title = "Unavailable"
    #: Nothing of what was asked for has been done, for certain. Otherwise all of it may have been, or some.
    untouched = False


class OutOfConnections(Unavailable):
    """The store may be well, and no further connection to it is to be had: this process, or the store, has its most."""

    title = "Out of connections"


class OutcomeUnknown(Unavailable):
    """The answer was lost after the request was sent: it may have been done. Repeat it only where that is safe."""

    title = "Outcome unknown"


class StateLost(HbusError):
    """What a store kept for somebody is gone: flushed, failed over or deleted by hand."""

    title = "State lost in the store"
