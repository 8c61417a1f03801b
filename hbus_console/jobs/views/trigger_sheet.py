"""The sheet that has a job run: a field for each parameter, or one for all of them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from hbus_console.jobs.models import Job
from hbus_console.jobs.parameter_form import as_json, parameter_fields
from hbus_console.jobs.services.draft import snapshot
from hbus_console.jobs.services.secrecy import Secrecy
from hbus_console.jobs.services.work import schema_of
from hbus_console.ui.curl import CurlRequest


def trigger_sheet(row: Job, secrecy: Secrecy, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What the sheet needs, filled with ``parameters`` but their secrets: what is left so is the job's own.

    ``secrecy`` is that of the job.
    """
    settings = snapshot(row)
    schema, shown = secrecy.shown_schema(schema_of(settings)), secrecy.masked(parameters, settings)
    # What has no value yet may be secret too, by what another version alone says.
    named = (schema or {}).get("properties")
    asked = {**(dict.fromkeys(named) if isinstance(named, Mapping) else {}), **parameters}
    return {
        "trigger_fields": parameter_fields(schema, secrecy.masked(asked, settings)),
        "trigger_json": as_json(shown),
        # A second click on the same page is the same run.
        "trigger_key": uuid4().hex,
        "trigger_curl": CurlRequest(
            "POST", f"/api/v1/jobs/{row.name}/trigger", {"parameters": shown, "reason": "why", "key": uuid4().hex}
        ),
    }
