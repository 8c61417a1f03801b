"""What a kind of work is: how it is checked when it is saved, and how it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.errors import BadInput
from engine.cron.work.call import RunContext, WorkOutcome
from hbus_console.access.permissions import Actor


@dataclass(frozen=True)
class WorkSpec:
    """What a version of a job says of its work."""

    target: str
    options: Mapping[str, Any]
    #: What calls to others are signed with.
    secret: str = ""
    #: How long the run may take, in seconds; 0: as long as it does.
    timeout_s: float = 0.0


class WorkKind(Protocol):
    """One kind. Stateless and thread-safe."""

    #: As jobs name it, and as pages do.
    name: str
    words: str

    def check(self, actor: Actor, spec: WorkSpec) -> None:
        """Raises ``BadInput`` naming the field, and ``Forbidden`` where ``actor`` may not do what it says."""
        ...

    def schema(self, spec: WorkSpec) -> dict[str, Any] | None:
        """The JSON Schema of its parameters, where the kind itself knows it."""
        ...

    def run(self, actor: Actor, spec: WorkSpec, context: RunContext) -> WorkOutcome:
        """Do it, by the rights that ``actor`` has now. Raises ``Forbidden`` where these do not suffice."""
        ...


def text_option(spec: WorkSpec, name: str, default: str = "") -> str:
    """Raises ``BadInput`` for what is no text."""
    value = spec.options.get(name, default)
    if not isinstance(value, str):
        raise BadInput(f"options.{name} is text.", remedy="Write it in quotes.", field="options")
    return value


def texts_option(spec: WorkSpec, name: str) -> dict[str, str]:
    """Names with texts. Raises ``BadInput`` for anything else."""
    value = spec.options.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadInput(f"options.{name} is an object of texts.", remedy='For example {"A": "b"}.', field="options")
    return value


def list_option(spec: WorkSpec, name: str) -> list[str]:
    """Texts, in their order. Raises ``BadInput`` for anything else."""
    value = spec.options.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadInput(f"options.{name} is a list of texts.", remedy='For example ["a", "b"].', field="options")
    return value


def only(spec: WorkSpec, *known: str) -> None:
    """Raises ``BadInput`` for an option that the kind does not know."""
    for name in spec.options:
        if name not in known:
            raise BadInput(
                f"There is no option {name!r}.",
                remedy=f"This kind knows {', '.join(known)}." if known else "This kind has none.",
                field="options",
            )
