"""Every address of the console; each feature brings its own."""

from __future__ import annotations

from collections.abc import Iterable

from django.urls import URLPattern, URLResolver, include, path

from hbus_console.cluster.health import healthz, readyz
from hbus_console.cluster.scrape import metrics
from hbus_console.registry.declaration import Mount
from hbus_console.registry.loading import features
from hbus_console.registry.names import PREFIXES


def mounted(mounts: Iterable[Mount]) -> list[URLPattern | URLResolver]:
    """The pages under ``mounts``, in whatever order these come.

    Pages without a prefix name their addresses whole, so they are asked first: what a prefix does not know by name it
    may take for the name of a thing, as ``messages/`` does.
    """
    return [path(mount.prefix, include(mount.urls)) for mount in sorted(mounts, key=lambda it: it.prefix)]


# Under a prefix of another's, what that takes for the name of a thing would hide pages.
PREFIXES.by_name(features())
urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("api/v1/", include("hbus_console.api.urls", namespace="v1")),
    *mounted(mount for feature in features() for mount in feature.pages),
]

handler400 = "hbus_console.ui.views.errors.bad_request"
handler403 = "hbus_console.ui.views.errors.forbidden"
handler404 = "hbus_console.ui.views.errors.not_found"
handler500 = "hbus_console.ui.views.errors.server_error"
