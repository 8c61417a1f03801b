"""The installation as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.views import ApiView
from hbus_console.cluster import services
from hbus_console.cluster.feature import CLUSTER_VIEW


class ClusterView(ApiView):
    """Roles, processes, store, databases, what features stand on, consumers and duties."""

    @extend_schema(
        operation_id="cluster_retrieve",
        tags=["cluster"],
        summary="How the installation stands",
        description="Sizes in bytes, durations in microseconds, instants in epoch milliseconds. Consumers are "
        "limited to the topics the caller may see, also where they are counted; what went wrong with a duty or a "
        "process is told to who may see every topic. What memory and disks hold, and how much goes on in the store, "
        "is told to who may reveal everywhere, and else null, or 0 of a process. `worst` is ok, warn or bad.",
        responses={200: OpenApiTypes.OBJECT},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, CLUSTER_VIEW, SOMEWHERE)
        found = services.cluster(self.actor)
        answer: dict[str, Any] = msgspec.to_builtins(found) | {"worst": found.worst}
        answer["store"]["troubles"] = found.store.troubles
        answer["standings"] = [
            {"feature": each.feature, "tone": each.tone, **msgspec.to_builtins(each.health)} for each in found.standings
        ]
        answer["idle"] = [{"topic": topic, "group": group, "why": why} for topic, group, why in found.idle]
        return Response(answer)


urlpatterns = [path("cluster", ClusterView.as_view(), name="cluster")]
