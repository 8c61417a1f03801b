"""A Celery app with a periodic entry."""

from __future__ import annotations

from celery import Celery

app = Celery("periodic", set_as_current=False)
app.conf.beat_schedule = {"every-minute": {"task": "periodic.tick", "schedule": 60}}
