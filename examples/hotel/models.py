"""What the example keeps: a read model, what its partner knows, and feeds on their way."""

from __future__ import annotations

from django.db import models


class RoomNights(models.Model):
    """The read model: rooms sold for one night of one hotel. May be negative for a moment, never at the end."""

    #: The feed the bookings came from: ``source`` of their messages.
    source = models.CharField(max_length=300)
    hotel = models.CharField(max_length=100)
    night = models.DateField()
    sold = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "hotel", "night"], name="one_count_per_night")]


class PartnerRoom(models.Model):
    """A room category that the channel partner has in its catalogue."""

    code = models.CharField(max_length=8, primary_key=True)
    added_by = models.CharField(max_length=150)
    added_at = models.DateTimeField(auto_now_add=True)


class Load(models.Model):
    """A feed that the keeper publishes in the background."""

    source = models.CharField(max_length=300, unique=True)
    #: The bookings file; empty: the simulator.
    file = models.CharField(max_length=500, blank=True)
    bookings = models.PositiveIntegerField()
    #: Days of the hotel's time that pass in a second.
    speed = models.FloatField()
    events = models.PositiveIntegerField()
    published = models.PositiveIntegerField(default=0)
    started_by = models.CharField(max_length=150)
    started_ms = models.BigIntegerField()
    finished_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=500, blank=True)
