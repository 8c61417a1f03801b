"""How much the chaos tests do: the same acts and kills in both forms, on fewer messages in the short one."""

from __future__ import annotations

import os
from typing import TypeVar

Amount = TypeVar("Amount", int, float)

#: ``make chaos`` asks for the whole form; beside everything else (``make test``) the short one runs.
WHOLE = os.environ.get("HBUS_CHAOS", "") == "whole"


def size(whole: Amount, *, short: Amount) -> Amount:
    """A number of messages, events or letters; or seconds."""
    return whole if WHOLE else short
