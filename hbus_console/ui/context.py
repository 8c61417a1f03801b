"""What every page's layout needs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from hbus_console.access.permissions import ANONYMOUS, GLOBAL, Actor, visible_scopes
from hbus_console.ui import timerange

THEMES = ("light", "dark")


def layout(request: HttpRequest) -> dict[str, Any]:
    """Template variables of the frame: who acts, where, over which time, in which theme."""
    who: Actor = getattr(request, "actor", ANONYMOUS)
    theme = request.COOKIES.get("hbus_theme", "")
    frame: dict[str, Any] = {
        "actor": who,
        "environment_name": settings.ENVIRONMENT_NAME,
        "range": timerange.time_range(request),
        "range_problem": timerange.problem(request),
        "range_presets": [(name, label) for name, (_, label) in timerange.PRESETS.items()],
        # What a new range replaces; a page of the old one is no page of it.
        "range_replaces": (*timerange.PARAMETERS, "cursor"),
        "zone_id": timezone.get_current_timezone_name(),
        "zone_name": timezone.get_current_timezone_name().rpartition("/")[2].replace("_", " "),
        "theme": theme if theme in THEMES else "",
    }
    if who.is_authenticated:
        frame |= {
            "actor_role": max((grant.role for grant in who.grants), key=lambda role: role.rank, default=""),
            "actor_scopes": visible_scopes(who),
            "actor_sees_all": GLOBAL in visible_scopes(who),
            "logout_url": reverse("accounts:logout"),
            "live_url": reverse("ui:live"),
        }
    return frame
