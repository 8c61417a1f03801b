"""What runs somewhere else, in a crontab or under another scheduler, and is watched here."""

from __future__ import annotations

from typing import Any

from engine.core.errors import BadInput
from engine.cron.work.call import RunContext, WorkOutcome
from hbus_console.access.permissions import Actor
from hbus_console.jobs.kinds.kind import WorkSpec, only
from hbus_console.jobs.kinds.names import WorkName

#: The longest ``target``, in characters: runs name it as who began them.
LONGEST_TARGET = 200
#: Settings of what is done here: with them a job elsewhere could only promise what nobody keeps.
DONE_HERE = (
    "options",
    "parameters",
    "parameters_schema",
    "catch_up",
    "catch_up_window_s",
    "catch_up_most",
    "overlap",
    "most_at_once",
    "lease_s",
    "after_loss",
    "after_failure",
    "attempts",
    "backoff_s",
    "backoff_most_s",
    "after",
    "jitter_s",
    "overlap_on",
    "manual_runs",
    "tags",
    "division",
    "shards",
)
#: What the others are called there.
LABELS = {
    "target": "Where it runs",
    "timeout_s": "Its end comes within, in seconds",
    "grace_s": "A ping comes within, in seconds",
}


class ElsewhereKind:
    """``target`` says where it runs, for people: nobody begins it here, and pings tell of it."""

    name = WorkName.ELSEWHERE.value
    words = "watched by pings"

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        only(spec)
        if len(spec.target) > LONGEST_TARGET:
            raise BadInput(
                f"Where it runs is said in {len(spec.target)} characters.",
                remedy=f"Use {LONGEST_TARGET} at most, for example db1:/etc/cron.d/backup.",
                field="target",
            )

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        return None

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        return WorkOutcome(False, "it runs elsewhere", again=False)
