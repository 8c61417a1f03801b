"""What open pages hear of a store that goes away and comes back."""

from __future__ import annotations

import pytest

from hbus_console.cluster import live, probes, services
from hbus_console.cluster.probes import StoreState

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
AWAY = StoreState("x", error="Timeout")
WELL = StoreState("x", server="Valkey", durable=True)


def test_nothing_is_called_live_while_the_store_is_away_and_its_return_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "living", lambda: ([], ""))
    monkeypatch.setattr(probes, "store_state", lambda: AWAY)
    away = live.cells(0, ("*",))
    monkeypatch.setattr(probes, "store_state", lambda: WELL)
    well = live.cells(0, ("*",))
    assert (away.stale, well.stale) == (AWAY.away, "")
    assert away.marks["store"] != well.marks["store"]
