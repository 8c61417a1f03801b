"""What limiters and buckets are called where others see it: no two alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
import pytest

from engine.core.errors import BadInput
from engine.core.store import open_client
from engine.quota import QuotaNode, Rule
from engine.quota.plane import KeptBook
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, KeptRule, LimiterText, Want
from engine.quota.terms import LONGEST, Name


def test_no_two_limiters_are_called_alike() -> None:
    parts = ("a", "a/b", "b", "b/c", "c", "a%2Fb", "a%252Fb", "c@n", "")
    assert len({str(Name(*name)) for name in product(parts, repeat=3)}) == len(parts) ** 3


@pytest.mark.parametrize("sign", "/%@")
def test_the_longest_name_fits_into_a_want(sign: str) -> None:
    text = str(Name(sign * LONGEST, sign * LONGEST, sign * LONGEST))
    assert msgspec.convert(text, LimiterText) == text


@pytest.mark.parametrize(
    "chains",
    [
        ((BucketLink("a/b", "c"),), (BucketLink("a", "b/c"),)),
        ((BucketLink("a%2Fb", "c"),), (BucketLink("a/b", "c"),)),
    ],
)
def test_no_two_buckets_have_one_key(redis_url: str, prefix: str, chains: Sequence[tuple[BucketLink, ...]]) -> None:
    plane = RedisControlPlane(open_client(redis_url), prefix)
    keys = [set(plane._keys(Want("w", "n", "s/r/t", "t", chain, 1, 1.0))[3:]) for chain in chains]
    assert not keys[0] & keys[1]


@pytest.mark.parametrize("bad", ["a b", "a\nb", "a\x00b", "\udc80"])
def test_a_want_with_an_id_that_no_memory_could_keep_is_refused_by_its_field(bad: str) -> None:
    with pytest.raises(BadInput) as refused:
        Want(bad, "n", "s/r/t", "t", (BucketLink("all"),), 1, 1.0)
    assert refused.value.field == "id"


@pytest.mark.parametrize("field", ["node", "limiter", "tenant", "rule", "owner"])
def test_no_part_of_a_want_has_signs_that_are_none(field: str) -> None:
    parts = {"node": "n", "limiter": "s/r/t", "tenant": "t", "rule": "all", "owner": "", field: "a\x1fb"}

    def made() -> Want:
        link = BucketLink(parts["rule"], parts["owner"])
        return Want("w", parts["node"], parts["limiter"], parts["tenant"], (link,), 1, 1.0)

    with pytest.raises(BadInput) as refused:
        made()
    assert refused.value.field == field


def test_a_node_or_a_rule_with_a_name_that_no_store_could_keep_is_refused(redis_url: str, prefix: str) -> None:
    with pytest.raises(BadInput) as refused:
        QuotaNode("a\nb", RedisControlPlane(open_client(redis_url), prefix))
    assert refused.value.field == "node"
    with pytest.raises(BadInput) as refused:
        Rule(id="a\nb", limit=1, burst=1)
    assert refused.value.field == "id"


def test_the_store_takes_no_id_for_the_beginning_of_another(redis_url: str, prefix: str) -> None:
    """Whatever comes past the door: here two Wants that no struct would make."""
    plane = RedisControlPlane(open_client(redis_url), prefix, now=lambda: 1e6)
    plane.keep_rules(KeptBook(1, b""), {"all": KeptRule(1.0, 10.0)})
    plane._now = lambda: 2e6

    def ask(want_id: str) -> list[object]:
        want = Want("w", "n", "s/r/t", "t", (BucketLink("all"),), 4, 1.0)
        raw = [want_id, *msgspec.to_builtins(want)[1:]]
        (answer,) = plane._scripts.call_each(
            "want", [(plane._keys(want), [msgspec.msgpack.encode(raw), *plane._arguments(want)[1:]])]
        )
        found: list[object] = msgspec.msgpack.decode(answer)
        return found

    assert [ask(want_id)[:3] for want_id in ("a b", "a", "a b", "a\x00")] == [
        ["a b", "granted", 4],
        ["a", "granted", 4],
        ["a b", "granted", 2],
        ["a\x00", "granted", 0],
    ]
