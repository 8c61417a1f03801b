"""Errors say what happened, to what, and what to do about it."""

from __future__ import annotations


class HbusError(Exception):
    """Base of every error hbus raises on purpose.

    ``what`` is one sentence in the operator's words; ``remedy`` is what to do; ``field`` names the input at fault.
    """

    def __init__(self, what: str, *, remedy: str = "", field: str = "") -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.what = what
        self.remedy = remedy
        self.field = field


class BadInput(HbusError):
    """The caller's input was refused; nothing was changed."""


class ConfigurationError(HbusError):
    """A setting is missing, malformed or asks for what the chosen backend cannot do."""


class Unavailable(HbusError):
    """A store or a peer could not be reached; nothing is known to have changed. Trying again later is safe."""
