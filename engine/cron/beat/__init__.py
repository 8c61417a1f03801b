"""Celery's own periodic entries: read for an import, and sent once by any number of ``celery beat`` beside each other.

The one part of the engine that knows Celery; nothing else of it imports this.
"""

from engine.cron.beat.scheduler import SlotScheduler

__all__ = ["SlotScheduler"]
