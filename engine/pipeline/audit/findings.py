"""What an audit may find, how bad each is, and the sentence it is told by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from engine.core.verdicts import FindingForm, Severity


class FindingKind(StrEnum):
    MISSING = "missing"
    UNTOLD = "untold"
    LOSS = "loss"
    DUPLICATE = "duplicate"
    CONFLICTING = "conflicting"
    #: Either of these two, to who is not told which; no audit finds it.
    REPEATED = "repeated"
    GAP = "gap"
    OUT_OF_ORDER = "out_of_order"
    OUT_OF_TIME = "out_of_time"
    MALFORMED = "malformed"
    #: Its payload breaks the schema that its topic had.
    UNFIT = "unfit"
    FOREIGN = "foreign"
    SKEWED = "skewed"
    NO_OUTCOME = "no_outcome"
    WAITING = "waiting"
    DONE_UNTOLD = "done_untold"
    RETRIED = "retried"
    INTERRUPTED = "interrupted"
    DEAD = "dead"
    LOST = "lost"
    PASSED = "passed"
    HANDLED_AGAIN = "handled_again"
    ORPHAN = "orphan"


class Lying(msgspec.Struct, frozen=True, gc=False):
    """A place in the log of a topic."""

    log: str
    position: str
    #: When what lies there was stored, epoch milliseconds; 0: that is not told.
    stored_ms: int


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One message that a finding is about."""

    id: str
    source: str
    key: str
    #: When it happened, epoch milliseconds.
    at_ms: int
    #: What is special about it; empty: nothing.
    note: str = ""
    #: Where it lies in its topic, where its id alone does not say; of a loss, what it lies after, and
    #: ``at_ms`` is when it was found.
    places: Sequence[Lying] = ()

    @property
    def named(self) -> str:
        """By its id, or else by where it lies."""
        return self.id or " ".join(place.position for place in self.places)


class Finding(msgspec.Struct, frozen=True, gc=False):
    kind: FindingKind
    severity: Severity
    #: Of what the sentence says.
    count: int
    says: str
    #: Empty: it concerns the topic.
    subscription: str = ""
    #: Of what is explained: by what.
    why: str = ""
    samples: Sequence[Sample] = ()


FORMS: Mapping[FindingKind, FindingForm] = {
    FindingKind.MISSING: FindingForm(
        Severity.WRONG,
        "{count} messages were published and are not in the lake",
        "1 message was published and is not in the lake",
    ),
    FindingKind.UNTOLD: FindingForm(
        Severity.WRONG,
        "{count} messages are in the lake, and the ledger knows none of them",
        "1 message is in the lake, and the ledger does not know it",
    ),
    FindingKind.LOSS: FindingForm(
        Severity.WRONG,
        "{count} were gone before they were archived, and were counted then",
        "1 was gone before it was archived, and was counted then",
    ),
    FindingKind.DUPLICATE: FindingForm(
        Severity.WRONG,
        "{count} times a message was stored again, as it was",
        "once a message was stored again, as it was",
    ),
    FindingKind.CONFLICTING: FindingForm(
        Severity.WRONG,
        "{count} times another payload was stored under an id and source that were taken",
        "once another payload was stored under an id and source that were taken",
    ),
    FindingKind.REPEATED: FindingForm(
        Severity.WRONG,
        "{count} times a message was stored under an id and source that were taken",
        "once a message was stored under an id and source that were taken",
    ),
    FindingKind.GAP: FindingForm(
        Severity.WRONG,
        "{count} sequence numbers between others of their key are missing",
        "1 sequence number between others of its key is missing",
    ),
    FindingKind.OUT_OF_ORDER: FindingForm(
        Severity.WRONG,
        "{count} messages were stored behind one of their key with a higher sequence number",
        "1 message was stored behind one of its key with a higher sequence number",
    ),
    FindingKind.OUT_OF_TIME: FindingForm(
        Severity.NOTICE,
        "{count} messages without a sequence number were stored behind a later one of their key",
        "1 message without a sequence number was stored behind a later one of its key",
    ),
    FindingKind.MALFORMED: FindingForm(
        Severity.WRONG,
        "{count} messages are no envelopes that can be read",
        "1 message is no envelope that can be read",
    ),
    FindingKind.UNFIT: FindingForm(
        Severity.WRONG,
        "{count} payloads break the schema that was theirs",
        "1 payload breaks the schema that was its",
    ),
    FindingKind.FOREIGN: FindingForm(
        Severity.WRONG,
        "{count} messages are of a source that is none of the producers",
        "1 message is of a source that is none of the producers",
    ),
    FindingKind.SKEWED: FindingForm(
        Severity.NOTICE,
        "{count} messages bear a time that is more than five minutes off the store's",
        "1 message bears a time that is more than five minutes off the store's",
    ),
    FindingKind.NO_OUTCOME: FindingForm(
        Severity.WRONG,
        "{count} messages were passed over: later ones have an outcome, of these nothing was told",
        "1 message was passed over: later ones have an outcome, of this one nothing was told",
    ),
    FindingKind.WAITING: FindingForm(
        Severity.NOTICE,
        "{count} messages have no outcome yet",
        "1 message has no outcome yet",
    ),
    FindingKind.DONE_UNTOLD: FindingForm(
        Severity.NOTICE,
        "{count} messages are done with as the store says, and so far nobody told what became of them",
        "1 message is done with as the store says, and so far nobody told what became of it",
    ),
    FindingKind.RETRIED: FindingForm(
        Severity.NOTICE,
        "{count} attempts failed and were scheduled again",
        "1 attempt failed and was scheduled again",
    ),
    FindingKind.INTERRUPTED: FindingForm(
        Severity.NOTICE,
        "{count} messages were handed to a consumer that never told what came of it, and then to another",
        "1 message was handed to a consumer that never told what came of it, and then to another",
    ),
    FindingKind.DEAD: FindingForm(
        Severity.NOTICE,
        "{count} messages became dead letters",
        "1 message became a dead letter",
    ),
    FindingKind.LOST: FindingForm(
        Severity.WRONG,
        "{count} messages were lost by the store before they were handled",
        "1 message was lost by the store before it was handled",
    ),
    FindingKind.PASSED: FindingForm(
        Severity.NOTICE,
        "{count} messages are done with as the store says, and nobody told what became of them",
        "1 message is done with as the store says, and nobody told what became of it",
    ),
    FindingKind.HANDLED_AGAIN: FindingForm(
        Severity.NOTICE,
        "{count} times a message was handled that had been settled",
        "once a message was handled that had been settled",
    ),
    FindingKind.ORPHAN: FindingForm(
        Severity.NOTICE,
        "{count} outcomes are of messages that neither the lake nor the ledger knows",
        "1 outcome is of a message that neither the lake nor the ledger knows",
    ),
}
