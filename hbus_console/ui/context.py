"""What every page's layout needs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def layout(request: HttpRequest) -> dict[str, Any]:
    return {"environment_name": settings.ENVIRONMENT_NAME}
