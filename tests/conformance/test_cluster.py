"""The Redis Streams transport keeps every promise on a cluster too, whichever of its nodes has the topic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance
from engine.bus.conformance.delays import MakeDelays
from engine.bus.delays import RedisDelays
from engine.core.clock import Clock
from engine.core.store import open_client
from tests.store_servers import StoreCluster


class TestCluster(TransportConformance):
    # A proxy cannot stand before nodes that tell their own addresses. The wire is the one of a single server, whose
    # test cuts it.
    test_a_publish_whose_answer_was_lost_is_unknown = None
    test_repeating_an_unknown_publish_under_its_key_is_safe = None
    test_what_was_leased_in_an_answer_that_was_lost_comes_again = None
    test_a_settlement_whose_answer_was_lost_is_made_once = None
    test_a_lease_whose_extension_was_not_answered_is_held_and_extended_again = None
    test_in_order_what_was_leased_in_a_lost_answer_comes_before_anything_newer = None
    test_a_key_is_parked_once_though_the_answer_was_lost_and_its_owner_knows_it = None
    test_an_attempt_that_was_announced_in_a_lost_answer_is_counted_once = None
    test_a_turn_whose_answer_was_lost_leaves_no_partition_without_a_reader = None
    test_a_lone_consumer_keeps_the_order_of_a_key_whichever_answer_is_lost = None

    @pytest.fixture
    def config(self, store_cluster: StoreCluster, prefix: str) -> BusConfig:
        return BusConfig(type="redis_stream", url=store_cluster.url, prefix=prefix)

    @pytest.fixture
    def make_delays(self, store_cluster: StoreCluster, prefix: str) -> MakeDelays:
        def make(clock: Clock) -> RedisDelays:
            return RedisDelays(open_client(store_cluster.url), prefix, clock=clock)

        return make

    @pytest.fixture
    def restart(self, store_cluster: StoreCluster) -> Callable[[], None]:
        return store_cluster.restart
