"""What a run of the archive does once all is archived: old days go, small files become few, and leftovers are swept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from django.conf import settings

from engine.pipeline.audit.sides import sweep_sides
from engine.pipeline.delta.exporting import Exported, export_tables
from engine.pipeline.delta.places import sweep_tables
from engine.pipeline.lake.compaction import Compacted, compact
from engine.pipeline.lake.retention import LetGo, let_go
from hbus_console.pipelines.spools import leave_what_is_archived
from hbus_console.pipelines.the_lake import lake


@dataclass(slots=True)
class Upkeep:
    """What came of it."""

    gone: list[LetGo] = field(default_factory=list)
    compacted: Compacted = field(default_factory=Compacted)
    #: The Delta tables that are not as they were, where such are kept.
    exported: list[Exported] = field(default_factory=list)


def keep_up(go_on: Callable[[], None] = lambda: None) -> Upkeep:
    """Of all that the lake has, archived any further or not. ``go_on`` may raise to end it between two merges.

    Raises ``OSError`` and ``LakeDamaged``, and ``ConfigurationError`` where Delta tables are wanted and cannot be
    written; what was done until then counts.
    """
    gone = let_go(lake())
    compacted = compact(lake(), go_on)
    leave_what_is_archived(lake().state(), lake().clock.now_ms())
    if lake().sweep_when_due():
        # Hashes of what was erased are in the sides of the files that are gone.
        sweep_sides(lake())
        sweep_tables(lake())
    exported = export_tables(lake(), go_on=go_on) if settings.HBUS_DELTA and lake().is_begun() else []
    return Upkeep(gone, compacted, exported)
