from __future__ import annotations

from tests.hbus_console.topics.conftest import calling, committed, own_keys, signed_in, team, told, topic

__all__ = ["calling", "committed", "own_keys", "signed_in", "team", "told", "topic"]
