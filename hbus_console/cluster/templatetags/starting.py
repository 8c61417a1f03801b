"""Whether a role that nobody runs is on its way up: then nobody need be told to start it by hand."""

from __future__ import annotations

from pathlib import Path

from django import template
from django.conf import settings

from hbus_console.supervisor.status import being_started

register = template.Library()


@register.simple_tag
def starting(role: str) -> bool:
    """``{% starting "consumer" as comes %}``: whether the supervisor of this machine is starting one."""
    return being_started(Path(settings.STATE), role)
