"""Every address of the console; each app brings its own."""

from __future__ import annotations

from django.urls import include, path

from hbus_console import metrics
from hbus_console.cluster.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics.page, name="metrics"),
    path("", include("hbus_console.overview.urls")),
    path("", include("hbus_console.ui.urls")),
    path("", include("hbus_console.accounts.urls")),
    path("audit/", include("hbus_console.audit.urls")),
    path("", include("hbus_console.topics.urls")),
    path("", include("hbus_console.schemas.urls")),
    path("", include("hbus_console.subscriptions.urls")),
    path("", include("hbus_console.teams.urls")),
    path("", include("hbus_console.publishing.urls")),
    path("", include("hbus_console.traffic.urls")),
    path("messages/", include("hbus_console.messages.urls")),
    path("dead-letters/", include("hbus_console.deadletters.urls")),
    path("alerts/", include("hbus_console.alerts.urls")),
    path("replays/", include("hbus_console.replays.urls")),
    path("operations/", include("hbus_console.operations.urls")),
    path("cluster/", include("hbus_console.cluster.urls")),
    path("api/v1/", include("hbus_console.api.urls", namespace="v1")),
]

handler400 = "hbus_console.ui.views.errors.bad_request"
handler403 = "hbus_console.ui.views.errors.forbidden"
handler404 = "hbus_console.ui.views.errors.not_found"
handler500 = "hbus_console.ui.views.errors.server_error"
