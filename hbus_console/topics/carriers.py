"""What has to run so that topics are carried, and how that is."""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.db.models import Q

from engine.core.env import Env
from engine.core.errors import HbusError
from hbus_console.registry.health import Probe, ProbedHealth
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: Carried by the store itself, which is asked anyway, or by nothing outside of the process.
_ON_THE_STORE = {"redis_stream", "memory"}


def needs_nsqd() -> bool:
    """Whether the default or any topic goes by NSQ, or is leaving it, and nobody has named an nsqd of their own."""
    if Env().words("NSQD_URL") or Env().words("NSQLOOKUPD_URL"):
        return False
    by_nsq = Q(transport="nsq") | Q(leaving="nsq")
    return settings.HBUS_TRANSPORT == "nsq" or Topic.objects.filter(by_nsq).exists()


def probes() -> list[Probe]:
    """Every transport that carries a topic, or will carry the next one, beside those on the installation's store."""
    named = Topic.objects.values_list("transport", "leaving").distinct()
    used = {settings.HBUS_TRANSPORT, *(name for pair in named for name in pair)} - {""}
    # What no topic names goes by the default: while that is away, most of what the console is for cannot be done.
    return [Probe(name, partial(_ask, name), name == settings.HBUS_TRANSPORT) for name in sorted(used - _ON_THE_STORE)]


def _ask(carrier: str) -> ProbedHealth:
    needed = carrier == settings.HBUS_TRANSPORT
    try:
        seconds = bus.transport(carrier).ping()
    except HbusError as error:
        return ProbedHealth(carrier, "does not answer", error.what, needed)
    return ProbedHealth(carrier, note=f"answers in {seconds * 1000:.1f} ms", needed=needed)
