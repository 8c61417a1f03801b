"""What the bus asks about a topic before it takes a message: the governance side, seen from the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from engine.bus.errors import UnknownTopic
from engine.bus.subjects import topic_subject
from engine.core.subject import Subject


class SchemaCheck(Protocol):
    """A compiled schema."""

    @property
    def uri(self) -> str:
        """Goes into ``dataschema``."""
        ...

    def problem(self, payload: object) -> tuple[str, str] | None:
        """``(field, what is wrong)`` of a JSON payload, or ``None`` when it is valid."""
        ...


@dataclass(frozen=True)
class TopicPolicy:
    """One topic as its owners configured it."""

    name: str
    #: The owning team; empty means ownerless, and every publish is refused.
    owner: str
    classification: str = "internal"
    #: ``none``, or ``key``: messages of one key are handled in order.
    ordering: str = "none"
    #: Into how many partitions keys are spread; 1 unless ordered by key.
    partitions: int = 1
    #: Whether a message may ask for another priority than normal; excludes ordering by key.
    priorities: bool = True
    max_bytes: int = 1024 * 1024
    idempotency_window_s: int = 24 * 3600
    schema: SchemaCheck | None = None
    #: A default for ``PublishOptions.ttl_s``.
    ttl_s: int | None = None
    #: Name of the transport that carries it; empty: the installation's default.
    transport: str = ""
    #: A publish is confirmed once so many replicas of the store have it; 0: once the store itself has it.
    replicas: int = 0
    #: Which topic of this name it is: one that is made after another was deleted is not that one. Empty: nobody knows.
    incarnation: str = ""
    #: What evidence calls it. Raises :class:`~engine.core.errors.BadInput` for a name that no subject may have.
    subject: Subject = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subject", topic_subject(self.name))


class TopicCatalog(Protocol):
    """Where policies come from. Called for every batch: implementations cache. Thread-safe."""

    def topic(self, name: str) -> TopicPolicy:
        """Raises :class:`~engine.bus.errors.UnknownTopic`."""
        ...


class StaticCatalog:
    """A fixed set of topics, for libraries and tests."""

    def __init__(self, *policies: TopicPolicy) -> None:
        self._policies = {policy.name: policy for policy in policies}

    def topic(self, name: str) -> TopicPolicy:
        try:
            return self._policies[name]
        except KeyError:
            raise UnknownTopic(
                f"There is no topic {name!r}.", remedy="Create it with an owner first.", field="topic"
            ) from None
