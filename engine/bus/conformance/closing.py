"""A topic that was closed stores nothing: :class:`engine.bus.optional.ClosesTopics`."""

from __future__ import annotations

from typing import cast

import pytest

from engine.bus.bulk import Lane, PublishesInBulk
from engine.bus.conformance.base import NOT_DECLARED, TransportTests, Workbench, bodies
from engine.bus.conformance.promises import keeps
from engine.bus.optional import ClosesTopics
from engine.bus.transport import Outgoing, Overlapping, Priority, Status


@keeps("K46")
class ClosingConformance(TransportTests):
    @pytest.fixture
    def closes(self, bench: Workbench) -> ClosesTopics:
        if not isinstance(bench.admin, ClosesTopics):
            pytest.skip(f"{NOT_DECLARED}closing topics")
        return bench.admin

    @pytest.mark.parametrize("how", ["closed", "deleted"])
    def test_it_stores_nothing_by_any_way_until_it_is_made_anew(
        self, bench: Workbench, closes: ClosesTopics, how: str
    ) -> None:
        bench.publish(b"before")
        if how == "closed":
            closes.close_topic(bench.topic)
            closes.close_topic(bench.topic)
        else:
            bench.admin.delete_topic(bench.topic)
        ways = [[bench.outgoing(b"late")], [bench.outgoing(b"late"), Outgoing("k", b"late", idempotency_key="k")]]
        if bench.transport.capabilities.priority:
            ways.append([bench.outgoing(b"late", Priority.HIGH)])

        for batch in ways:
            outcomes = bench.transport.publish(bench.topic, batch)
            if isinstance(bench.transport, Overlapping):
                outcomes += [
                    each for some in bench.transport.publish_chunks(bench.topic, iter([batch])) for each in some
                ]
            assert {outcome.status for outcome in outcomes} == {Status.FAILED}
            assert all(outcome.error and outcome.remedy for outcome in outcomes)
        if isinstance(bench.transport, PublishesInBulk):
            keyed = Outgoing("b", b"late", idempotency_key="b")
            in_bulk = cast(PublishesInBulk, bench.transport)
            appended = in_bulk.publish_bulk(bench.topic, Lane("w", "r", "0", 60_000), [keyed])
            assert (appended.done, bool(appended.error), bool(appended.remedy)) == (0, True, True)

        # What is made anew takes it, and under the same key.
        bench.admin.create_topic(bench.topic)
        bench.admin.create_group(bench.topic, bench.group)
        kept = [] if how == "deleted" else [b"before"]
        for batch in ways:
            assert {each.status for each in bench.transport.publish(bench.topic, batch)} == {Status.OK}
            kept += [each.body for each in batch]
        assert sorted(bodies(bench.drain(bench.receiver()))) == sorted(kept)

    def test_what_lies_there_is_delivered_and_settled_and_counted(self, bench: Workbench, closes: ClosesTopics) -> None:
        bench.publish(b"a", b"b")
        closes.close_topic(bench.topic)

        assert bodies(bench.drain(bench.receiver())) == [b"a", b"b"]
        bench.expect_all_settled()
        assert bench.admin.counts(bench.topic).get("published") == 2
