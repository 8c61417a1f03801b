from __future__ import annotations

from tests.hbus_console.api.conftest import installation, program
from tests.hbus_console.topics.conftest import calling, committed, own_keys, signed_in, team, told, topic

__all__ = ["calling", "committed", "installation", "own_keys", "program", "signed_in", "team", "told", "topic"]
