"""What has to run here so that topics are carried."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q

from engine.core.env import Env
from hbus_console.topics.models import Topic


def needs_nsqd() -> bool:
    """Whether the default or any topic goes by NSQ, or is leaving it, and nobody has named an nsqd of their own."""
    if Env().words("NSQD_URL") or Env().words("NSQLOOKUPD_URL"):
        return False
    by_nsq = Q(transport="nsq") | Q(leaving="nsq")
    return settings.HBUS_TRANSPORT == "nsq" or Topic.objects.filter(by_nsq).exists()
