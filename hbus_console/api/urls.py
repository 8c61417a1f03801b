"""Everything under /api/v1: each app brings its own endpoints."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from hbus_console.accounts import api as accounts
from hbus_console.alerts import api as alerts
from hbus_console.api import publish, reference
from hbus_console.audit import api as audit
from hbus_console.cluster import api as cluster
from hbus_console.deadletters import api as deadletters
from hbus_console.ledger import api as ledger
from hbus_console.operations import api as operations
from hbus_console.topics import api as topics

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", include(publish.urlpatterns)),
    path("", include(topics.urlpatterns)),
    path("", include(accounts.urlpatterns)),
    path("", include(audit.urlpatterns)),
    path("", include(cluster.urlpatterns)),
    path("", include(ledger.urlpatterns)),
    path("", include(deadletters.urlpatterns)),
    path("", include(alerts.urlpatterns)),
    path("", include(operations.urlpatterns)),
    path("", include(reference.urlpatterns)),
]
