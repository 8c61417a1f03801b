"""What can be wrong with a lake."""

from __future__ import annotations

from engine.core.errors import Conflict, StateLost


class LakeDamaged(StateLost):
    """A file of the lake is missing, or is not what the commit that added it says."""

    title = "The lake is damaged"


class Superseded(Conflict):
    """Somebody else changed meanwhile what a commit was made from; nothing was changed."""

    title = "Changed meanwhile"
