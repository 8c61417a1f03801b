from __future__ import annotations

from django.db import models


class Lamp(models.Model):
    """A lamp in a street. The street is its namespace."""

    street = models.CharField(max_length=100)
    name = models.CharField(max_length=100)
    burning = models.BooleanField(default=False)
    #: Looked at by the timer so many times.
    looks = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["street", "name"]
