"""What has a reason that is on record is not called wrong, and what cannot be known yet is not judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from engine.core.clock import to_rfc3339
from engine.core.verdicts import AuditVerdict, Severity
from engine.pipeline.audit.auditing import Auditor, TopicKnown
from engine.pipeline.audit.findings import FindingKind, Lying, Sample
from engine.pipeline.audit.judging import BEFORE, ERASED, LOSS, RETENTION
from engine.pipeline.lake.erasure import erase
from engine.pipeline.lake.retention import let_go, set_rules
from engine.pipeline.lake.state import TopicRules
from engine.pipeline.source.planning import Loss, Why
from tests.engine.pipeline.audit.asking import audit, counts, of_kind
from tests.engine.pipeline.audit.planting import Planter
from tests.engine.pipeline.audit.telling import (
    DAY_MS,
    MINUTE_MS,
    SOURCE,
    TOPIC,
    Booking,
    Delivery,
    Hotel,
    Told,
    season,
)


def test_what_a_known_loss_took_is_explained_and_the_loss_is_told(hotel: Hotel) -> None:
    told = season(3_000, hotel.start_ms, logs=("-",))
    gone = told.stored[1_000:1_300]
    hotel.archive_messages(told.stored[:1_000])
    # What was left of it begins where the loss ends, as the archive tells first.
    loss = Loss("-", Why.TRIMMED, "1-0", "2-0", 300)
    rest = told.stored[1_300:]
    hotel.archive_messages(rest[:1], losses=[loss])
    hotel.archive_messages(rest[1:])
    hotel.archive_ledger(told.published, told.deliveries)

    found = audit(hotel)

    numbers: dict[str, list[int]] = {}
    for each in told.stored:
        numbers.setdefault(each.key, []).append(int(each.sequence))
    ids = {each.id for each in gone}
    between = [each for each in gone if 1 < int(each.sequence) < max(numbers[each.key])]
    assert len(between) == len(ids)
    assert counts(found, why=LOSS) == Counter({(FindingKind.MISSING, ""): 300, (FindingKind.GAP, ""): 300})
    assert counts(found) == Counter({(FindingKind.LOSS, ""): 300})
    assert of_kind(found, FindingKind.LOSS).samples == [
        Sample(
            *("", "", "", rest[0].stored_ms + 30_000),
            *("300 messages, let go of before they were archived; 2-0 is there again", [Lying("-", "1-0", 0)]),
        )
    ]
    assert {each.severity for each in found.findings if each.why} == {Severity.EXPLAINED}
    assert found.verdict is AuditVerdict.WRONG


def test_what_is_missing_elsewhere_is_not_explained_by_a_loss(hotel: Hotel) -> None:
    told = season(3_000, hotel.start_ms, logs=("-",))
    gone = {told.stored[2_500].id}
    hotel.archive_messages(told.stored[:1_000])
    hotel.archive_messages(told.stored[1_300:1_301], losses=[Loss("-", Why.TRIMMED, "1-0", "2-0", None)])
    hotel.archive_messages([each for each in told.stored[1_301:] if each.id not in gone])
    hotel.archive_ledger(told.published, told.deliveries)
    found = audit(hotel)
    assert counts(found)[FindingKind.MISSING, ""] == 1
    assert counts(found, why=LOSS)[FindingKind.MISSING, ""] == 300
    loss = of_kind(found, FindingKind.LOSS)
    assert loss.says.endswith("of 1 losses nobody knows how many")
    assert [each.note for each in loss.samples] == [
        "nobody knows how many messages, let go of before they were archived; 2-0 is there again"
    ]


def test_days_that_retention_took_are_no_loss(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    # The ledger's day ends a little later than the store's.
    last = max(each.stored_ms for each in told.stored if each.stored_ms < hotel.start_ms + DAY_MS)
    late = Booking("late", "guest-late", "", last, "-")
    hotel.archive_ledger([replace(late, stored_ms=hotel.start_ms + DAY_MS + 20)], [])
    set_rules(hotel.lake, TOPIC, lambda _: TopicRules(keep_days=20), by="ada", reason="enough")
    assert [each.kept_from for each in let_go(hotel.lake)] == [to_rfc3339(hotel.start_ms + DAY_MS)[:10]]

    found = audit(hotel)

    assert counts(found) == Counter()
    assert counts(found, why=RETENTION) == Counter({(FindingKind.MISSING, ""): 1})
    assert found.verdict is AuditVerdict.EXPLAINED


def test_a_key_that_was_erased_is_no_loss_even_where_the_ledger_speaks_of_it_later(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored)
    guest = [each for each in told.published if each.key == "guest-7"]
    hotel.archive_ledger([each for each in told.published if each not in guest], told.deliveries)
    erase(hotel.lake, TOPIC, "guest-7", by="ada", reason="asked for by the guest")
    hotel.archive_ledger(guest, [])

    found = audit(hotel)

    assert counts(found, why=ERASED) == Counter({(FindingKind.MISSING, ""): len(guest)})
    assert counts(found) == Counter()
    assert found.verdict is AuditVerdict.EXPLAINED


def test_what_is_older_than_the_archive_is_no_loss(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored[1_000:])
    hotel.archive_ledger(told.published[:3_000], told.deliveries[:6_000])
    hotel.archive_ledger(told.published[3_000:], told.deliveries[6_000:])
    found = audit(hotel)
    assert counts(found, why=BEFORE) == Counter({(FindingKind.MISSING, ""): 1_000})
    assert counts(found) == Counter()


def test_what_is_older_than_the_ledger_is_not_called_untold(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored)
    hotel.archive_ledger(told.published[1_000:], told.deliveries[2_000:])
    found = audit(hotel)
    assert counts(found, why=BEFORE) == Counter({(FindingKind.UNTOLD, ""): 1_000})
    assert counts(found) == Counter()


def test_rows_that_the_ledger_let_go_of_explain_what_is_not_told(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored)
    hotel.archive_ledger(told.published[:1_000], told.deliveries)
    with hotel.lake.run() as run:
        hotel.commit_losses(run, [Loss("published", Why.TRIMMED, "1000", "", 500)])
    hotel.archive_ledger(told.published[1_500:], [])
    found = audit(hotel)
    assert counts(found, why=LOSS) == Counter({(FindingKind.UNTOLD, ""): 500})
    assert counts(found) == Counter({(FindingKind.LOSS, ""): 500})
    (lost,) = of_kind(found, FindingKind.LOSS).samples
    assert lost.places == [Lying("published", "1000", 0)]
    assert lost.note == "500 rows, let go of before they were archived"


def test_of_many_losses_a_few_are_told_and_how_many_there_are(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    losses = [Loss("-", Why.EMPTIED, f"{number}-0", "", 1) for number in range(7)]
    with hotel.lake.run() as run:
        hotel.commit_losses(run, losses)
    found = of_kind(audit(hotel, to_ms=hotel.clock.now_ms()), FindingKind.LOSS)
    assert found.says == "7 were gone before they were archived, and were counted then, in 7 losses"
    assert [each.named for each in found.samples] == [f"{number}-0" for number in range(5)]
    assert {each.note for each in found.samples} == {"1 message, as the store was emptied, or all was made anew"}


def test_a_topic_of_which_the_ledger_is_not_archived_is_compared_with_nothing(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored)
    found = audit(hotel)
    assert (found.findings, found.published, found.complete) == ([], None, None)
    assert found.archived.messages == 6_000
    assert found.verdict is AuditVerdict.CLEAN


def test_what_the_ledger_has_not_told_yet_is_not_judged(hotel: Hotel, told: Told) -> None:
    half = 3_000
    hotel.archive_messages(told.stored)
    hotel.archive_ledger(told.published[:half], told.deliveries[: 2 * half])
    told_until = told.published[half - 1].stored_ms

    (found,) = Auditor(hotel.lake).run([TOPIC]).topics

    assert found.findings == []
    assert found.closed_ms == told_until - 5 * MINUTE_MS
    assert found.to_ms == found.closed_ms - 5 * MINUTE_MS
    assert found.verdict is AuditVerdict.CLEAN
    (further,) = Auditor(hotel.lake).run([TOPIC], to_ms=told.stored[-1].stored_ms).topics
    assert further.findings == []
    assert further.verdict is AuditVerdict.OPEN
    closed = [window.from_ms for window in further.windows if window.closed]
    assert closed[-1] + further.window_ms <= found.to_ms < closed[-1] + 2 * further.window_ms
    assert len(further.windows) > len(closed)


def test_what_the_archive_has_not_read_yet_is_not_judged(hotel: Hotel, told: Told) -> None:
    hotel.archive_messages(told.stored[:3_000])
    hotel.archive_ledger(told.published, told.deliveries)
    (found,) = Auditor(hotel.lake).run([TOPIC]).topics
    assert found.findings == []
    assert found.closed_ms <= told.stored[2_999].stored_ms
    assert counts(audit(hotel))[FindingKind.MISSING, ""] == 3_000


def test_a_subscription_is_asked_for_what_came_since_it_began(hotel: Hotel, told: Told) -> None:
    told.deliveries += [
        Delivery(each.id, each.source, "marketing", "settled", each.stored_ms + 4) for each in told.stored[4_000:]
    ]
    hotel.archive(told)
    assert counts(audit(hotel)) == Counter()
    since = told.stored[3_900].stored_ms
    about = TopicKnown({"marketing": since, "unheard": since}, None, hotel.clock.now_ms())
    (found,) = Auditor(hotel.lake).run([TOPIC], known={TOPIC: about}).topics
    assert counts(found) == Counter(
        {(FindingKind.NO_OUTCOME, "marketing"): 100, (FindingKind.WAITING, "unheard"): 2_100}
    )
    by_name = {each.name: each for each in found.subscriptions}
    assert (by_name["marketing"].open, by_name["marketing"].complete) == (100, 2_000 / 2_100)
    assert (by_name["unheard"].open, by_name["unheard"].complete) == (2_100, 0.0)


def test_what_waits_behind_the_last_outcome_or_was_tried_is_not_called_passed_over(hotel: Hotel, told: Told) -> None:
    tried = told.stored[1_000].id
    waiting = {each.id for each in told.stored[-50:]}
    told.deliveries = [
        replace(each, kind="retried") if each.id == tried else each
        for each in told.deliveries
        if not (each.id in waiting and each.subscription == "billing")
    ]
    hotel.archive(told)
    found = audit(hotel)
    assert counts(found) == Counter(
        {
            (FindingKind.WAITING, "billing"): 51,
            (FindingKind.WAITING, "housekeeping"): 1,
            (FindingKind.RETRIED, "billing"): 1,
            (FindingKind.RETRIED, "housekeeping"): 1,
        }
    )
    assert found.verdict is AuditVerdict.CLEAN


def test_a_message_for_one_subscription_is_asked_of_no_other(hotel: Hotel, told: Told) -> None:
    aimed = {each.id for each in told.stored[500:4_000:100]}
    told.stored = [replace(each, target="billing") if each.id in aimed else each for each in told.stored]
    told.deliveries = [
        each for each in told.deliveries if not (each.id in aimed and each.subscription == "housekeeping")
    ]
    hotel.archive(told)
    assert counts(audit(hotel)) == Counter()


def test_copies_and_what_waited_for_its_time_are_in_nobodys_way(hotel: Hotel, told: Told) -> None:
    original = told.stored[100]
    copy = replace(original, id="copy", replay="replay", stored_ms=told.stored[5_000].stored_ms)
    due = replace(told.stored[200], stored_ms=told.stored[4_000].stored_ms, due_ms=told.stored[4_000].stored_ms)
    told.stored.insert(5_000, copy)
    told.stored.insert(4_000, due)
    told.stored.remove(told.stored[200])
    told.published.append(copy)
    told.deliveries += [replace(each, id="copy") for each in told.deliveries if each.id == original.id]
    hotel.archive(told)
    found = audit(hotel)
    assert counts(found) == Counter()
    assert found.replayed.messages == 1
    assert found.archived.messages == 6_001


def test_what_is_told_without_a_source_is_of_whoever_has_the_id(hotel: Hotel, told: Told) -> None:
    told.deliveries = [replace(each, source=None) for each in told.deliveries]
    hotel.archive(told)
    assert counts(audit(hotel)) == Counter()


def test_one_id_of_two_sources_is_two_messages(hotel: Hotel, told: Told) -> None:
    for each in told.stored[100:2_000:100]:
        twin = replace(each, source="/another", key="another guest", sequence="")
        told.stored.insert(told.stored.index(each), twin)
        told.published.append(twin)
        told.deliveries += [replace(one, source="/another") for one in told.deliveries if one.id == each.id]
    hotel.archive(told)
    about = TopicKnown(producers=[SOURCE, "/another"], complete_ms=hotel.clock.now_ms())
    (found,) = Auditor(hotel.lake).run([TOPIC], known={TOPIC: about}).topics
    assert counts(found) == Counter()


def test_an_id_that_no_ledger_takes_is_not_called_untold(hotel: Hotel, told: Told) -> None:
    long = replace(told.stored[500], id="x" * 65, sequence="")
    told.stored.insert(500, long)
    told.deliveries += [
        Delivery("y", SOURCE, None, "untold", told.stored[600].stored_ms),
    ]
    hotel.archive(told)
    found = audit(hotel)
    assert (FindingKind.UNTOLD, "") not in counts(found)
    assert found.told == {"untold": 1}


def test_what_has_no_number_is_looked_at_by_its_time_and_only_noted(hotel: Hotel, told: Told) -> None:
    told.stored = [replace(each, sequence="" if each.key == "guest-3" else each.sequence) for each in told.stored]
    of_key = [each for each in told.stored if each.key == "guest-3"]
    # Both within the five minutes that clocks may differ.
    late = {of_key[index].id for index in (10, 20)}
    told.stored = [replace(each, time_ms=each.stored_ms - 250_000) if each.id in late else each for each in told.stored]
    near = [
        replace(each, id=f"near-{each.id}", stored_ms=each.stored_ms - 1_000, time_ms=each.stored_ms - 1_000)
        for each in told.stored
        if each.id in late
    ]
    for each in near:
        told.stored.insert(next(i for i, one in enumerate(told.stored) if one.stored_ms > each.stored_ms), each)
    told.published += near
    told.deliveries += [replace(each, id=f"near-{each.id}") for each in told.deliveries if each.id in late]
    hotel.archive(told)
    found = audit(hotel)
    assert counts(found) == Counter({(FindingKind.OUT_OF_TIME, ""): 2})
    assert {sample.id for sample in of_kind(found, FindingKind.OUT_OF_TIME).samples} == late
    assert found.verdict is AuditVerdict.CLEAN


def test_an_outcome_of_an_older_message_than_those_looked_at_is_no_finding(hotel: Hotel, told: Told) -> None:
    late = told.stored[10].id
    end_ms = told.stored[-1].stored_ms
    told.deliveries = [
        replace(each, at_ms=end_ms) if each.id == late and each.subscription == "billing" else each
        for each in told.deliveries
    ]
    hotel.archive(told)
    assert counts(audit(hotel)) == Counter()
    assert counts(audit(hotel, from_ms=end_ms - DAY_MS // 2, to_ms=end_ms + 1)) == Counter()


def test_the_death_of_what_was_no_envelope_is_of_no_message(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    planter.no_envelope(2)
    told.deliveries += [Delivery("", "", "billing", "dead", each.stored_ms + 5) for each in told.stored if each.body]
    hotel.archive(told)
    assert counts(audit(hotel)) == planter.expected


def test_a_source_of_which_the_ledger_keeps_the_beginning_is_the_same_source(hotel: Hotel, told: Told) -> None:
    source = "/" + "x" * 400
    told.stored = [replace(each, source=source) for each in told.stored]
    told.published = [replace(each, source=source[:300]) for each in told.published]
    told.deliveries = [replace(each, source=source[:300]) for each in told.deliveries]
    hotel.archive(told)
    (found,) = Auditor(hotel.lake).run([TOPIC], known={TOPIC: TopicKnown(complete_ms=hotel.clock.now_ms())}).topics
    assert found.findings == []


def test_a_fault_outside_of_the_span_is_not_told_in_it(hotel: Hotel, told: Told) -> None:
    planter = Planter(told)
    planter.not_told(30)
    planter.stored_again(30)
    planter.swapped(10)
    hotel.archive(told)
    first, last = hotel.start_ms + DAY_MS, hotel.start_ms + 2 * DAY_MS
    whole = counts(audit(hotel))
    parts = [
        counts(audit(hotel, from_ms=start, to_ms=end))
        for start, end in ((first - DAY_MS - 3_600_000, first), (first, last), (last, last + DAY_MS))
    ]
    assert sum(parts, Counter()) == whole == planter.expected
    assert all(part[FindingKind.UNTOLD, ""] for part in parts)
