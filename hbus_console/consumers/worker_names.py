"""What the workers of the consumer role are called among all workers of a broker."""

from __future__ import annotations

#: What their names begin with: ``consumer-0@host``.
WORKER = "consumer-"
