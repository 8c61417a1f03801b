"""What can go wrong on the bus, each with its remedy."""

from __future__ import annotations

from engine.core.errors import BadInput, ConfigurationError, Conflict, NotThere, OutcomeUnknown, StateLost, Unavailable


class PublishRefused(BadInput):
    """A message was refused before it reached a store: nothing was written."""


class UnknownTopic(PublishRefused, NotThere):
    """The topic is not in the catalog."""

    title = "Unknown topic"


class OwnerlessTopic(PublishRefused):
    """The topic has no owner, so nobody would answer for its messages."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Topic {name!r} has no owner.", remedy="Name its owning team on the topic's page.", field="topic"
        )


class TopicReplaced(PublishRefused):
    """The topic that the message was meant for is gone; one made later under its name is not for it."""

    title = "Another topic of this name"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The topic {name!r} that it was meant for was deleted; the one of this name now is another.",
            remedy="Publish it anew, if it is for that one too.",
            field="topic",
        )


class IdempotencyConflict(PublishRefused, Conflict):
    """The idempotency key was used before with another body."""

    title = "Idempotency key used with another body"


class KeyOfAnotherLane(PublishRefused, Conflict):
    """Another lane of the same run has published messages of this ordering key: their order cannot be kept."""

    title = "Ordering key in two lanes"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Messages of the ordering key {key!r} come from two lanes of one run, and nobody can keep their order.",
            remedy="Bring each key into one lane.",
            field="partitionkey",
        )
        self.key = key

    def __reduce__(self) -> tuple[type[KeyOfAnotherLane], tuple[str]]:
        # By its key: who raises it may be another process than who tells of it.
        return type(self), (self.key,)


class PublishFailed(Unavailable):
    """The store refused or could not be reached before the message was sent: it was certainly not stored."""


class ProducerClosed(PublishFailed):
    """The producer was closed before the publish began: nothing was sent."""


class PublishUnknown(OutcomeUnknown):
    """The connection broke after the message was sent: it may be stored. Repeat with the same idempotency key."""


class GroupLost(StateLost):
    """The subscription's state is gone from the store (flushed, failed over or deleted by hand)."""

    title = "Subscription lost in the store"


#: What a question to a transport or a breaker board may raise when there is nobody to answer it: the store is away,
#: has lost the subscription, or is not among those that the settings name. For who can do without the answer.
UNANSWERED = (Unavailable, GroupLost, ConfigurationError)


class InboxAway(Unavailable):
    """The inbox could not be asked, or could not keep what was done: whatever was done for the message is undone, and
    the message is not at fault."""

    title = "Inbox away"


class MalformedEnvelope(BadInput):
    """Bytes that are no CloudEvents 1.0 envelope."""


class Unrecoverable(Exception):
    """Raised by a handler to say that no further attempt can help: the message is dead at once."""


class HandlerHung(TimeoutError):
    """A handler took longer than its subscription's ``max_handler_s``; the attempt counts as failed."""


class RetryLater(Exception):
    """Raised by a handler to ask for the next attempt after ``seconds``. It counts as an attempt."""

    def __init__(self, seconds: float, why: str = "") -> None:
        super().__init__(why or f"asked to be tried again in {seconds:g} s")
        self.seconds = seconds
