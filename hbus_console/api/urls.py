"""Everything under /api/v1: each app brings its own endpoints."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from hbus_console.accounts import api as accounts
from hbus_console.alerts import api as alerts
from hbus_console.api import reference
from hbus_console.audit import api as audit
from hbus_console.cluster import api as cluster
from hbus_console.deadletters import api as deadletters
from hbus_console.messages import api as messages
from hbus_console.operations import api as operations
from hbus_console.publishing import api as publishing
from hbus_console.schemas import api as schemas
from hbus_console.subscriptions import api as subscriptions
from hbus_console.teams import api as teams
from hbus_console.topics import api as topics

app_name = "api"
_PARTS = (
    publishing,
    topics,
    schemas,
    subscriptions,
    teams,
    accounts,
    audit,
    cluster,
    messages,
    deadletters,
    alerts,
    operations,
    reference,
)
urlpatterns: list[URLPattern | URLResolver] = [path("", include(part.urlpatterns)) for part in _PARTS]
