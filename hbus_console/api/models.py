"""Idempotency keys of the API."""

from __future__ import annotations

from django.db import models

#: Characters of a method and an address.
LONGEST_ROUTE = 300


class IdempotencyRecord(models.Model):
    """One key of one actor on one route: the first answer is kept and given again. Expires after a day."""

    actor = models.CharField(max_length=150)
    route = models.CharField(max_length=LONGEST_ROUTE)
    key = models.CharField(max_length=128)
    request_digest = models.CharField(max_length=64)
    #: 0 while the first request is still at work; 5xx: it has ended, and nobody knows whether it was done; 1: given up,
    #: so that none that comes under it is carried out.
    status = models.PositiveIntegerField(default=0)
    #: Until then, and while nobody knows what became of the request: its id.
    response = models.BinaryField(default=b"")
    content_type = models.CharField(max_length=100, blank=True)
    #: What the actor could do when it was asked, as pairs of role and scope: with less it is not given again.
    rights = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor", "route", "key"], name="one_answer_per_key")]
