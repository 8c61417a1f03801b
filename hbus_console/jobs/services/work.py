"""What the kind of a job's work has to say to its settings, and its schema to parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.jobs.kinds.kind import WorkSpec
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.schema_walk import TooMuch
from hbus_console.jobs.showing import MOST_STEPS, looked_through, mask_places
from hbus_console.jobs.shown_schema import may_be_quoted
from hbus_console.schemas.json_schema import CompiledSchema

#: The settings that say what is done: whoever changes one lends the job their rights.
WORK_SETTINGS = ("kind", "target", "options", "parameters", "parameters_schema", "timeout_s")


def spec_of(settings: Mapping[str, Any], secret: str = "") -> WorkSpec:
    """Of the settings of a job, or of a version of it."""
    return WorkSpec(settings["target"], settings["options"], secret, float(settings["timeout_s"]))


def check_work(actor: Actor, settings: Mapping[str, Any], written: Mapping[str, Any] | None = None) -> None:
    """Raises ``BadInput`` naming the setting, and ``Forbidden`` where ``actor`` may not do what the job would.

    ``written``: the parameters with a mask for each secret that ``actor`` has not typed, where there may be one.
    """
    kind, spec = KINDS[settings["kind"]], spec_of(settings)
    kind.check(actor, spec)
    schema = settings["parameters_schema"]
    if schema is not None and kind.schema(spec) is not None:
        raise BadInput(
            "The function says itself what its parameters must be.", remedy="Leave it empty.", field="parameters_schema"
        )
    _compiled(schema)
    # A trigger may add what a schedule lacks; what is there must fit all the same.
    if settings["parameters"] or schema is not None or kind.schema(spec) is not None:
        check_parameters(settings, settings["parameters"] if written is None else written)


def schema_of(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """What parameters must fit; ``None``: any object does."""
    schema: dict[str, Any] | None = settings["parameters_schema"]
    return KINDS[settings["kind"]].schema(spec_of(settings)) if schema is None else schema


def check_parameters(
    settings: Mapping[str, Any], written: Mapping[str, Any], shown: Mapping[str, Any] | None = None
) -> None:
    """Raises ``BadInput`` (field ``parameters``) where they do not fit; what it says quotes no value.

    They are asked as they were ``written``, with a mask for each secret that nobody typed, and what stands behind one
    is never asked about: a schema that compares it with what is typed beside it would tell it, an answer at a time.
    ``shown``: as they may be seen by all that the job ever was. Of what is secret no value is told that would fit.
    """
    schema = schema_of(settings)
    try:
        seen = looked_through(written, schema or {}, most=MOST_STEPS // 5)
    except TooMuch:
        raise BadInput(
            "The parameters take too long to look through for secrets by their schema.",
            remedy="Use fewer patterns and alternatives, or fewer names.",
            field="parameters",
        ) from None
    compiled = _compiled(schema)
    if compiled is None:
        return
    unknown = mask_places(written)
    quotes = may_be_quoted(seen, shown or {})
    if unknown:
        problem = compiled.problem_beside(dict(written), unknown, quotes)
    else:
        problem = compiled.problem(dict(written), quotes)
    if problem is not None:
        raise BadInput(
            f"The parameters do not fit: {problem[1]}.",
            remedy="Its schema says what they must be."
            + (
                " Is it about a secret, type that too: what stands behind a mask is not asked about." if unknown else ""
            ),
            field="parameters",
        )


def _compiled(schema: dict[str, Any] | None) -> CompiledSchema | None:
    if schema is None:
        return None
    try:
        return CompiledSchema(schema)
    except BadInput as error:
        raise BadInput(error.what, remedy=error.remedy, field="parameters_schema") from error
