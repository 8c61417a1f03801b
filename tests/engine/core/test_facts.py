from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.core import fact_kinds
from engine.core.fact_log import FactLog
from engine.core.facts import BATCH_LIMIT, FactBatch, Fields, MemoryFacts, NullFacts, Numbers, Texts, merged
from engine.core.subject import Subject

PATIENCE_S = 60.0


class Fact(NamedTuple):
    """One fact as the sink got it."""

    kind: str
    at_ms: int
    amount: int
    detail: str


class Sink:
    """Notes what it was given at once, fact by fact; can be made to fail or to hold on."""

    def __init__(self) -> None:
        self.batches: list[list[Fact]] = []
        self.failures = 0
        self.tries = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.changed = threading.Condition()

    def write(self, facts: Sequence[FactBatch]) -> None:
        with self.changed:
            self.tries += 1
            self.changed.notify_all()
        assert self.go_on.wait(PATIENCE_S)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the stream is away")
        with self.changed:
            self.batches.append(
                [
                    Fact(batch.kind, row["at_ms"], row["amount"], row["detail"])
                    for batch in facts
                    for row in batch.rows()
                ]
            )
            self.changed.notify_all()

    def all(self) -> list[Fact]:
        return [fact for batch in self.batches for fact in batch]

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.all()) >= count, PATIENCE_S), len(self.all())

    def wait_for_tries(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.tries >= count, PATIENCE_S)


def facts(count: int, start: int = 0) -> list[FactBatch]:
    return [FactBatch("published", [*range(start, start + count)], Subject("topic", "a"), count=count)]


def test_facts_arrive_in_order_and_in_batches() -> None:
    sink = Sink()
    log = FactLog(sink)
    for start in range(0, 3_000, 100):
        log.emit(facts(100, start))
    log.close()
    assert [fact.at_ms for fact in sink.all()] == list(range(3_000))
    assert max(len(batch) for batch in sink.batches) <= BATCH_LIMIT
    assert (log.dropped, log.waiting) == (0, 0)


def test_facts_wait_for_company_also_behind_a_batch() -> None:
    # Given a batch that is being written and a few facts behind it
    sink = Sink()
    sink.go_on.clear()
    log = FactLog(sink, linger_s=PATIENCE_S)
    log.emit(facts(BATCH_LIMIT))
    sink.wait_for_tries(1)
    log.emit(facts(5, start=BATCH_LIMIT))
    sink.go_on.set()
    sink.wait_for(BATCH_LIMIT)
    # When their company comes, they go with it
    log.emit(facts(BATCH_LIMIT - 5, start=BATCH_LIMIT + 5))
    sink.wait_for(2 * BATCH_LIMIT)
    assert [len(batch) for batch in sink.batches] == [BATCH_LIMIT] * 2
    log.close()


def test_what_does_not_fit_is_counted_and_said() -> None:
    sink = Sink()
    sink.go_on.clear()
    log = FactLog(sink, limit=50, linger_s=0.001)
    log.emit(facts(1))
    sink.wait_for_tries(1)
    log.emit(facts(60, start=1))
    assert log.waiting == 50
    assert log.dropped == 10
    log.emit(facts(5, start=61))
    assert log.dropped == 15
    sink.go_on.set()
    sink.wait_for(52)
    log.close()
    (said,) = [fact for fact in sink.all() if fact.kind == "facts_dropped"]
    assert (said.amount, said.detail) == (15, "15 facts dropped")
    assert len([fact for fact in sink.all() if fact.kind == "published"]) == 51


def test_a_failing_sink_gets_the_same_batch_again() -> None:
    sink = Sink()
    sink.failures = 3
    log = FactLog(sink, linger_s=0.001, retry_s=0.001)
    log.emit(facts(5))
    sink.wait_for(5)
    log.close()
    assert len(sink.batches) == 1
    assert sink.tries == 4
    assert log.dropped == 0
    assert log.last_error == ""


def test_the_sinks_failure_shows_while_it_lasts() -> None:
    sink = Sink()
    sink.failures = 1_000_000
    log = FactLog(sink, linger_s=0.001, retry_s=0.001)
    log.emit(facts(1))
    sink.wait_for_tries(2)
    assert log.last_error == "ConnectionError: the stream is away"
    log.close()


def test_closing_flushes_what_waits_in_any_number_of_batches() -> None:
    sink = Sink()
    log = FactLog(sink, linger_s=10.0)
    log.emit(facts(BATCH_LIMIT * 3 + 7))
    log.close()
    assert len(sink.all()) == BATCH_LIMIT * 3 + 7
    log.close()


def test_closing_without_a_working_sink_counts_what_was_lost() -> None:
    sink = Sink()
    sink.failures = 1_000_000
    log = FactLog(sink, linger_s=0.001, retry_s=60.0)
    log.emit(facts(1))
    sink.wait_for_tries(1)
    log.emit(facts(9, start=1))
    log.close(drain_s=5.0)
    assert log.dropped == 10
    assert log.waiting == 0


def test_closing_a_log_that_was_never_used_does_nothing() -> None:
    FactLog(Sink()).close()


def test_what_is_emitted_after_close_is_counted_as_dropped() -> None:
    sink = Sink()
    log = FactLog(sink, linger_s=0.001)
    log.emit(facts(1))
    log.close()
    log.emit(facts(3))
    assert log.dropped == 3
    assert log.waiting == 0


def test_many_threads_lose_nothing() -> None:
    sink = Sink()
    log = FactLog(sink)
    threads = [threading.Thread(target=lambda: [log.emit(facts(1)) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert len(sink.all()) == 4_000


def test_the_other_emitters() -> None:
    NullFacts().emit(facts(1))
    memory = MemoryFacts()
    memory.emit(facts(2))
    assert memory.kinds() == ["published", "published"]
    assert all(kind.sentence for kind in fact_kinds.FACTS.kinds)


def test_a_forked_child_sends_its_own_facts_and_not_its_parents() -> None:
    sink = Sink()
    sink.go_on.clear()
    log = FactLog(sink, linger_s=0.001)
    log.emit(facts(1))
    sink.wait_for_tries(1)
    log.emit(facts(5, start=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        own = Sink()
        log._sink = own
        log.emit(facts(2, start=100))
        log.close()
        os._exit(0 if [fact.at_ms for fact in own.all()] == [100, 101] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sink.go_on.set()
    log.close()
    assert [fact.at_ms for fact in sink.all()] == [0, 1, 2, 3, 4, 5]


class Own(Fields, frozen=True, array_like=True, gc=False):
    name: Texts = ""
    number: Numbers = 0


TOPIC, OTHER = Subject("topic", "a"), Subject("topic", "b")


def own(kind: str, at_ms: Numbers, subject: Subject = TOPIC, count: int = 1, **columns: Any) -> FactBatch:
    return FactBatch(kind, at_ms, subject, "n1", count, fields=Own(**columns))


def test_a_part_of_a_batch_has_its_part_of_every_column() -> None:
    whole = own("x", [1, 2, 3], count=3, name=["a", "b", "c"], number=7)
    part = whole.part(1, 3)
    assert (part.count, part.at_ms, part.fields) == (2, [2, 3], Own(["b", "c"], 7))
    assert list(whole.part(0, 1).rows()) + list(part.rows()) == list(whole.rows())
    assert whole.part(0, 3) is whole
    assert [row["name"] for row in whole.rows()] == ["a", "b", "c"]


def test_what_came_one_by_one_is_joined_and_what_is_shared_is_said_once() -> None:
    batches = [own("x", n, name=f"m{n}", number=7) for n in range(3)]
    (joined,) = merged([*batches, own("x", [8, 9], count=2, name="z", number=[1, 2])])
    assert joined.count == 5
    assert joined.at_ms == [0, 1, 2, 8, 9]
    assert joined.fields == Own(["m0", "m1", "m2", "z", "z"], [7, 7, 7, 1, 2])
    assert merged(batches)[0].fields == Own(["m0", "m1", "m2"], 7)


def test_only_facts_about_one_subject_are_joined_and_these_keep_their_order() -> None:
    told = [own("x", 1), own("x", 2, OTHER), own("x", 3), own("y", 4), own("x", 5), own("y", 6, OTHER)]
    found = merged(told)
    assert [(batch.kind, batch.subject, batch.count) for batch in found] == [
        ("x", TOPIC, 2), ("x", OTHER, 1), ("y", TOPIC, 1), ("x", TOPIC, 1), ("y", OTHER, 1),
    ]  # fmt: skip
    for subject in (TOPIC, OTHER):
        at = [row["at_ms"] for batch in found if batch.subject == subject for row in batch.rows()]
        assert at == [row["at_ms"] for batch in told if batch.subject == subject for row in batch.rows()]


def test_nothing_is_joined_beyond_what_goes_to_a_sink_at_once() -> None:
    found = merged([own("x", n, count=BATCH_LIMIT // 2) for n in range(5)])
    assert [batch.count for batch in found] == [BATCH_LIMIT, BATCH_LIMIT, BATCH_LIMIT // 2]


def test_the_bound_counts_facts_and_not_batches() -> None:
    sink = Sink()
    sink.go_on.clear()
    log = FactLog(sink, limit=50, linger_s=0.001)
    log.emit(facts(1))
    sink.wait_for_tries(1)
    # When one batch does not fit as a whole, what fits of it is kept
    log.emit(facts(30, start=1))
    log.emit(facts(40, start=31))
    assert (log.waiting, log.dropped) == (50, 20)
    sink.go_on.set()
    log.close()
    kept = [fact.at_ms for fact in sink.all() if fact.kind == "published"]
    assert kept == list(range(51))
