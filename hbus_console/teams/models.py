"""Who answers for what."""

from __future__ import annotations

from django.db import models

from engine.core.subject import Subject
from hbus_console.subjects import readable


class Team(models.Model):
    """Who answers for a topic or a subscription."""

    name = models.CharField(max_length=80, unique=True)
    contact = models.CharField(max_length=200, help_text="Where they are reached: mail address, channel or pager.")
    created_at = models.DateTimeField(auto_now_add=True)

    @property
    def subject(self) -> Subject:
        """As others speak of it."""
        return readable("team", "", self.name)

    @property
    def initials(self) -> str:
        words = self.name.split()
        return ("".join(word[0] for word in words[:2]) if len(words) > 1 else self.name[:2]).upper()

    class Meta:
        db_table = "topics_team"
