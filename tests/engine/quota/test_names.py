"""What limiters and buckets are called where others see it: no two alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
import pytest

from engine.core.store import open_client
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, LimiterText, Want
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
