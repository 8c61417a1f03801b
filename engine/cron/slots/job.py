"""What the protocol needs to know of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Protocol

from engine.cron.exclusions import Exclusions
from engine.cron.slots import parts

#: A pause is not doubled more often than a float bears.
MOST_DOUBLED = 64


class CatchUp(StrEnum):
    """What becomes of slots that came while nobody scheduled."""

    #: None of them runs.
    NONE = "none"
    #: The newest runs of all that has come: one of them, unless a later one is still in time.
    LAST = "last"
    #: All of them run, oldest first, up to :attr:`JobPolicy.catch_up_most` of the newest.
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of a run that is to begin while another of the job runs."""

    #: It runs as well, unless :attr:`JobPolicy.most_at_once` run: then it waits, and so may any number.
    RUN = "run"
    #: It is skipped.
    SKIP = "skip"
    #: It waits until the other has ended. One waits: a further one is skipped.
    QUEUE = "queue"
    #: The other is told to stop, and it begins when that has ended. Of those that wait the newest is left.
    CANCEL = "cancel"


class AfterLoss(StrEnum):
    """What becomes of a run whose worker lost its lease after it had begun."""

    #: It stays lost: what it did may be half done, and a person decides.
    END = "end"
    #: It is tried again, as a further attempt: for work that may be done twice.
    RETRY = "retry"


class AfterFailure(StrEnum):
    """What becomes of a run whose work failed."""

    #: It stays failed.
    END = "end"
    #: It is tried again after a pause, as a further attempt, unless its work says that no attempt would help.
    RETRY = "retry"


class Slots(Protocol):
    """The instants of a job, in seconds UTC."""

    def next_after(self, at: int) -> int | None:
        """The first one after ``at``."""
        ...


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """How a job treats what does not go as planned. Times are in seconds."""

    #: A slot that is later than this was missed, and :attr:`catch_up` says what becomes of it.
    grace_s: float = 30.0
    catch_up: CatchUp = CatchUp.LAST
    #: Slots further back than this never run.
    catch_up_window_s: float = 86_400.0
    catch_up_most: int = 100
    overlap: Overlap = Overlap.RUN
    #: How many of its runs may run at the same time under :attr:`Overlap.RUN`; 0: any number. Under the others, one.
    most_at_once: int = 0
    #: How long a worker has a run without renewing.
    lease_s: float = 30.0
    after_loss: AfterLoss = AfterLoss.END
    after_failure: AfterFailure = AfterFailure.END
    #: How often a run is tried at most, after losses and failures alike.
    attempts: int = 1
    #: The pause after the first failed attempt; each further one is twice as long, up to :attr:`backoff_most_s`.
    backoff_s: float = 10.0
    backoff_most_s: float = 600.0
    #: Each slot's run begins so much later at most, by a share of it that follows from job and slot.
    jitter_s: int = 0
    #: Whether runs that somebody triggered meet the others as a slot's run does; else they begin at once, beside all.
    binds_manual: bool = True
    #: Whether runs meet those alone that run on the same node.
    per_node: bool = False
    #: Words that it shares with other jobs: of those that have one no more runs go on than its limit lets.
    tags: tuple[str, ...] = ()
    #: Each slot is done in so many parts, beside each other; 1: in one piece.
    shards: int = 1
    #: Each slot is done on every node that has workers, once.
    on_nodes: bool = False
    #: Its work is done elsewhere and told of by pings: no worker begins it, see :mod:`~engine.cron.slots.watching`.
    elsewhere: bool = False
    #: Of work elsewhere: how soon after its beginning the end is to be told; 0: whenever it is.
    timeout_s: float = 0.0

    def pause_s(self, attempt: int) -> float:
        """From the failure of ``attempt`` to the next one."""
        return min(self.backoff_s * 2.0 ** min(attempt - 1, MOST_DOUBLED), self.backoff_most_s)

    @property
    def limit(self) -> int:
        """How many of its runs may run at the same time; 0: any number."""
        return self.most_at_once if self.overlap is Overlap.RUN else 1

    @property
    def divided(self) -> bool:
        """Whether a slot may be several runs."""
        return self.on_nodes or self.shards > 1

    def meet(self, part: str, other: str) -> bool:
        """Whether runs of these parts meet: under :attr:`Overlap.RUN` all do, else those that do the same."""
        return self.overlap is Overlap.RUN or part == other


@dataclass(frozen=True, slots=True)
class CronJob:
    """One version of a job's specification. ``version`` grows with each change of it."""

    name: str
    version: int
    slots: Slots
    policy: JobPolicy = JobPolicy()
    #: Why none of its slots runs: the end of a sentence. Empty: they do.
    held: str = ""
    #: When nothing of it runs.
    exclusions: Exclusions | None = None

    def excluded(self, slot: int) -> str:
        """What leaves this slot out; empty: nothing does."""
        return self.exclusions.why(slot) if self.exclusions else ""

    def parts(self, nodes: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The parts of a slot, where ``nodes`` have workers; empty: nobody could do it."""
        return parts.on_nodes(nodes) if self.policy.on_nodes else parts.shards(self.policy.shards)

    def wait_s(self, slot: int) -> int:
        """How long after ``slot`` its run is to begin: the same on every node."""
        if not self.policy.jitter_s:
            return 0
        chance = blake2b(f"{self.name} {slot}".encode(), digest_size=6).digest()
        return int.from_bytes(chance, "big") % (self.policy.jitter_s + 1)
