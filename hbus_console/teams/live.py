"""What moves: ``teams``, whenever one is made, called or reached differently, or gone. Who answers for a thing is shown
wherever that is, and a team lies in no namespace: everybody is told."""

from __future__ import annotations

from hbus_console.teams.models import Team
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """All teams: one query on a small table."""
    return LiveCells(marks={"teams": frozenset(Team.objects.values_list("pk", "name", "contact"))})
