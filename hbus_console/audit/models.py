"""The audit log: one unchangeable, hash-chained row per act."""

from __future__ import annotations

from django.db import models


class AuditEntry(models.Model):
    """Who did what to which thing, when, why, before and after. Database triggers refuse UPDATE and DELETE."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=16)
    #: ``topic.pause``, ``payload.reveal`` …; refused acts end in ``.refused``.
    action = models.CharField(max_length=64)
    target_type = models.CharField(max_length=32)
    target = models.CharField(max_length=400)
    #: The topic in whose namespace the target lies; empty for what lies outside every namespace.
    topic = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    request_id = models.CharField(max_length=64, blank=True)
    correlation_id = models.CharField(max_length=128, blank=True)
    address = models.CharField(max_length=64, blank=True)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["-seq"]
        indexes = [
            models.Index(fields=["actor", "-seq"], name="audit_actor"),
            models.Index(fields=["action", "-seq"], name="audit_action"),
            models.Index(fields=["target_type", "target", "-seq"], name="audit_target"),
            models.Index(fields=["topic", "-seq"], name="audit_topic"),
            # Filters name a target without its type.
            models.Index(fields=["target", "-seq"], name="audit_target_alone"),
            models.Index(fields=["correlation_id"], name="audit_correlation"),
        ]
