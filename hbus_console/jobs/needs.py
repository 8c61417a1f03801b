"""Whether anybody would miss the roles of this feature."""

from __future__ import annotations

from hbus_console.jobs.models import Job


def no_jobs() -> bool:
    """There is nothing to decide and nothing to run."""
    return not Job.objects.exists()
