"""``ETag`` and ``If-Match``: of two who change the same thing, the second learns of the first."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.errors import BadInput
from hbus_console.api.answers import read
from hbus_console.api.drafts import RevisedBody
from hbus_console.api.problems import IF_MATCH
from hbus_console.api.views import ApiView

#: What a read declares.
TAGGED = [OpenApiParameter("ETag", location=OpenApiParameter.HEADER, response=[200], description="Its revision.")]
#: What a change declares.
CONDITIONAL = [
    OpenApiParameter(
        IF_MATCH,
        location=OpenApiParameter.HEADER,
        description="The `ETag` that the change was made from: refused with 412 when it was changed meanwhile.",
    ),
    *TAGGED,
]
_TAG = re.compile(r'"([0-9]{1,18})"')


class RevisedView(ApiView):
    """An endpoint of one thing that has revisions: its PATCH may be conditional."""

    conditional = frozenset({"PATCH"})

    def tagged(self, shown: dict[str, Any], revision: int) -> Response:
        """The answer with the revision that it shows."""
        return Response(shown, headers={"ETag": f'"{revision}"'})

    def change(self, request: Request, kind: type[RevisedBody]) -> tuple[RevisedBody, int | None]:
        """What to change, and the revision it was made from; ``None``: from any.

        Raises ``BadInput`` for a tag that no answer gave, and for two revisions that differ.
        """
        body = read(request, kind)
        given = request.headers.get(IF_MATCH, "").strip()
        if not given or given == "*":
            return body, body.revision
        tag = _TAG.fullmatch(given)
        if tag is None:
            raise BadInput(
                f"{given[:40]} is no ETag of this thing.", remedy='Send one as it was given, as "7".', field=IF_MATCH
            )
        revision = int(tag[1])
        if body.revision not in (None, revision):
            raise BadInput(f"{IF_MATCH} and revision differ.", remedy="Send one of them.", field=IF_MATCH)
        return body, revision
