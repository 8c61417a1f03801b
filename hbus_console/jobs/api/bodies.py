"""What the endpoints of jobs take."""

from __future__ import annotations

from typing import Any

from hbus_console.api.bodies import ReasonBody
from hbus_console.api.drafts import change_body, new_body
from hbus_console.jobs.services.draft import SETTINGS


class TriggerBody(ReasonBody):
    """A run that somebody asks for. Without ``parameters`` they are the job's own; under the same ``key`` it is one
    run, however often it is asked for. ``part`` is the only one that is wanted of a job that is divided.
    """

    parameters: dict[str, Any] | None = None
    key: str = ""
    part: str = ""


NewJob = new_body(SETTINGS, "NewJob", "A job; ``owner`` names a team, ``kind`` what ``target`` is.")
JobChange = change_body(SETTINGS, "JobChange", "What to change of a job; an empty ``owner`` takes it away.")
