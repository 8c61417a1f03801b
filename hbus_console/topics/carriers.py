"""What has to run here so that topics are carried."""

from __future__ import annotations

from django.conf import settings

from engine.core.env import Env
from hbus_console.topics.models import Topic


def needs_nsqd() -> bool:
    """Whether the default or any topic goes by NSQ, and nobody has named an nsqd of their own."""
    if Env().words("NSQD_URL") or Env().words("NSQLOOKUPD_URL"):
        return False
    return settings.HBUS_TRANSPORT == "nsq" or Topic.objects.filter(transport="nsq").exists()
