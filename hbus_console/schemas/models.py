"""What payloads look like."""

from __future__ import annotations

from django.db import models

from hbus_console.topics.models import Topic


class SchemaVersion(models.Model):
    """One immutable version of a topic's JSON Schema (draft 2020-12)."""

    topic = models.ForeignKey(Topic, on_delete=models.CASCADE, related_name="schemas")
    version = models.PositiveIntegerField()
    body = models.JSONField()
    note = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        db_table = "topics_schemaversion"
        ordering = ["-version"]
        constraints = [models.UniqueConstraint(fields=["topic", "version"], name="one_schema_per_version")]

    @property
    def uri(self) -> str:
        """What a message says in ``dataschema`` about the schema it was checked against."""
        return f"urn:hbus:schema:{self.topic.name}:{self.version}"
