"""A message that is published."""

from __future__ import annotations

from typing import Any

from engine.core.errors import BadInput, HbusError, Unavailable
from engine.cron.work.call import RunContext, WorkOutcome
from hbus_console.access.permissions import Actor, Forbidden, require
from hbus_console.jobs.kinds.kind import WorkSpec, only, text_option
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.publishing.feature import PUBLISH
from hbus_console.publishing.services import publish_once
from hbus_console.topics.lookup import topic as find_topic


class PublishKind:
    """Its parameters are the payload. However often a run is tried, one message comes of it."""

    name = WorkName.PUBLISH.value
    words = "a message"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        only(spec, "type", "key")
        for name in ("type", "key"):
            text_option(spec, name)
        require(actor, PUBLISH, spec.target)
        try:
            find_topic(spec.target)
        except BadInput as error:
            raise BadInput(error.what, remedy=error.remedy, field="target") from error

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        call = context.call
        try:
            published = publish_once(
                actor,
                spec.target,
                dict(call.parameters),
                call.correlation_id,
                type=text_option(spec, "type"),
                partition_key=text_option(spec, "key"),
            )
        except Unavailable as error:
            return WorkOutcome(False, error.what)
        except Forbidden:
            raise
        except HbusError as error:
            return WorkOutcome(False, error.what, again=False)
        context.log.write(f"published {published} on {spec.target}\n")
        return WorkOutcome(True, summary=f"published {published}")
