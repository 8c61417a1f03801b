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


class BookLine(models.Model):
    """What a job has entered in a hotel's books: one line for a job, a hotel, and a day or a month."""

    job = models.CharField(max_length=200)
    hotel = models.CharField(max_length=100)
    #: The day, or the first of the month.
    period = models.DateField()
    #: Room-nights sold in it.
    stays = models.IntegerField()
    #: Which run has entered it, for which slot, under which epoch.
    run = models.BigIntegerField()
    slot = models.BigIntegerField()
    epoch = models.BigIntegerField()
    #: How often that run came to enter it: more often than it has attempts means that it ran twice.
    entries = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "hotel", "period"], name="one_line_per_period")]


class HeardClose(models.Model):
    """That a team has heard of a day's close, and how often: the broadcast reaches each of them once."""

    group = models.CharField(max_length=100)
    job = models.CharField(max_length=200)
    hotel = models.CharField(max_length=100)
    day = models.DateField()
    times = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "job", "hotel", "day"], name="one_row_per_close_heard")]


class PlayedNight(models.Model):
    """A simulated night, from a second up to another."""

    begin_s = models.BigIntegerField(unique=True)
    end_s = models.BigIntegerField()
    #: Of each of its jobs the settings that say when it runs, as they were played.
    when = models.JSONField()
    #: Empty: it was not played to its end.
    finished_at = models.DateTimeField(null=True, blank=True)
