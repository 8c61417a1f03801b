"""An HTTP call, under the rules of webhooks."""

from __future__ import annotations

import re
from http import HTTPMethod
from typing import Any

from engine.core.errors import BadInput
from engine.cron.work.call import RunContext, WorkOutcome
from engine.cron.work.http_call import HttpTarget, call_http
from hbus_console import outgoing
from hbus_console.access.permissions import Actor
from hbus_console.jobs.kinds.kind import WorkSpec, only, text_option, texts_option
from hbus_console.jobs.kinds.names import WorkName

#: In seconds, where the job has no bound of its own that is shorter.
LONGEST_S = 300.0
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Headers that are ours to say.
_OURS = ("authorization", "content-length", "host", "idempotency-key", "x-hbus-")
#: Headers of the connection, by which one end may take for the end of a call what the other does not (RFC 9110, 7.6.1).
_HOP = ("connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
#: What a header's name may be (RFC 9110, 5.6.2).
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class HttpKind:
    """Its parameters are the body as JSON, or the query of a GET and a DELETE."""

    name = WorkName.HTTP.value
    words = "an HTTP call"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        only(spec, "method", "headers")
        self._target(spec)
        try:
            outgoing.check_url(spec.target)
        except BadInput as error:
            raise BadInput(error.what, remedy=error.remedy, field="target") from error

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        with outgoing.client(min(spec.timeout_s or LONGEST_S, LONGEST_S)) as client:
            try:
                return call_http(context, self._target(spec), client, spec.secret.encode())
            except outgoing.ForbiddenTarget as error:
                return WorkOutcome(False, error.what, again=False)

    def _target(self, spec: WorkSpec) -> HttpTarget:
        method = text_option(spec, "method", "POST")
        if method not in _METHODS:
            raise BadInput(f"There is no method {method!r}.", remedy=f"Use {', '.join(_METHODS)}.", field="options")
        headers = texts_option(spec, "headers")
        for name, value in headers.items():
            if not (name + value).isascii() or not (name + value).isprintable():
                raise BadInput(
                    f"The header {name} holds what no header can say.", remedy="Use ASCII alone.", field="options"
                )
            if not _TOKEN.fullmatch(name):
                raise BadInput(
                    f"{name!r} is no name of a header.", remedy="Use letters, digits and hyphens.", field="options"
                )
            # Many receivers take the one for the other.
            plain = name.lower().replace("_", "-")
            if plain in _HOP or plain.startswith("proxy-"):
                raise BadInput(
                    f"The header {name} is of the connection, which is not the job's.",
                    remedy="Leave it out.",
                    field="options",
                )
            if plain.startswith(_OURS):
                raise BadInput(
                    f"The header {name} is not yours to set.",
                    remedy="Calls are signed; leave it out.",
                    field="options",
                )
        return HttpTarget(spec.target, HTTPMethod(method), headers)
