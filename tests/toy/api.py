from __future__ import annotations

from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.api.views import ApiView
from tests.toy.models import Lamp


class Lamps(ApiView):
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = Lamp.objects.filter(scopes_q(visible_scopes(self.actor), "street"))
        return Response([{"street": row.street, "name": row.name, "burning": row.burning} for row in rows])


urlpatterns = [path("lamps", Lamps.as_view(), name="lamps")]
