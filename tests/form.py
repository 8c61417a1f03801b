"""How much the chaos tests do: the same acts and kills in both forms, on fewer messages in the short one.

What is marked ``whole`` has no short form that shows anything: it is run by ``make chaos`` alone.
"""

from __future__ import annotations

import os
from typing import TypeVar

import pytest

Amount = TypeVar("Amount", int, float)

#: ``make chaos`` asks for the whole form; beside everything else (``make test``) the short one runs.
WHOLE = os.environ.get("HBUS_CHAOS", "") == "whole"


def size(whole: Amount, *, short: Amount) -> Amount:
    """A number of messages, events or letters; or seconds."""
    return whole if WHOLE else short


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not WHOLE:
        left = [item for item in items if item.get_closest_marker("whole")]
        items[:] = [item for item in items if not item.get_closest_marker("whole")]
        config.hook.pytest_deselected(items=left)
