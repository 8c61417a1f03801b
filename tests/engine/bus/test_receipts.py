"""What a refused publish says: the transport's words, however they end, as one sentence."""

from __future__ import annotations

import pytest

from engine.bus.receipts import answer_to
from engine.bus.transport import Outcome, Status


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
@pytest.mark.parametrize("error", ["full", "It is away. Make sure that it runs and that REDIS_URL names it."])
def test_it_ends_with_one_full_stop(status: Status, error: str) -> None:
    said = str(answer_to("booking.created", Outcome(status, "01M8", error=error)))
    assert f"{error.removesuffix('.')}. Publish it again" in said
    assert ".." not in said
