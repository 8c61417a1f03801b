"""Hashes and percentiles: what all the rest stands on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.pipeline.audit.hashing import OTHER, hash_texts
from engine.pipeline.audit.histogram import Durations, durations
from engine.pipeline.audit.percentiles import Percentiles, edge, merged

#: Of the texts below. Another one makes all sides worthless: then `sides.FORM` is another, too.
HASHES = [0, 11553602600010836478, 2279662372483563400, 14122589052020957197, 9691955090679609117]


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
def test_percentiles_are_within_two_percent_of_the_exact_ones(spread: float) -> None:
    ms = np.random.default_rng(7).lognormal(6, spread, 200_000)
    found = durations(ms).percentiles()
    exact = np.quantile(ms, [0.5, 0.95, 0.99, 0.999], method="inverted_cdf")
    assert [found.p50, found.p95, found.p99, found.p999] == pytest.approx(exact.tolist(), rel=0.02)
    assert found.longest == ms.max()
    assert found.count == 200_000


def test_durations_add_up() -> None:
    ms = np.random.default_rng(7).lognormal(6, 1, 10_000)
    whole, parts = durations(ms), Durations()
    parts.merge(durations(part) for part in np.array_split(ms, 7))
    assert parts.percentiles() == whole.percentiles()


def test_of_nothing_there_is_no_percentile_and_what_took_less_than_no_time_took_none() -> None:
    assert Durations().percentiles() == Percentiles(0)
    assert durations(np.array([-5.0, -3.0])).percentiles() == Percentiles(2, 0.0, 0.0, 0.0, 0.0, 0.0, {0: 2})


def test_those_of_several_topics_together_are_within_five_percent_of_the_exact_ones() -> None:
    random = np.random.default_rng(7)
    parts = [random.lognormal(mean, 1.0, size) for mean, size in ((3, 40_000), (6, 9_000), (-2, 3_000))]
    found = merged(durations(part).percentiles() for part in parts)
    every = np.concatenate(parts)
    exact = np.quantile(every, [0.5, 0.95, 0.99, 0.999], method="inverted_cdf")
    assert [found.p50, found.p95, found.p99, found.p999] == pytest.approx(exact.tolist(), rel=0.05)
    assert (found.longest, found.count) == (every.max(), len(every))
    for number, count in found.bins.items():
        low = edge(number - 1) if number else -1.0
        assert count == ((every >= low) & (every < edge(number))).sum()
    assert merged([Percentiles(0), Percentiles(0)]) == Percentiles(0)


def test_a_hash_is_for_ever() -> None:
    texts = ["", "a", "01JDRW8Y2M", "exactly8", "a longer text, of more words than one"]
    assert hash_texts(pa.array(texts)).tolist() == HASHES


def test_a_hash_does_not_depend_on_what_lies_around_it() -> None:
    texts = [("x" * (index % 40)) + str(index) for index in range(20_000)]
    column = pa.array(texts)
    whole = hash_texts(column)
    assert len(set(whole.tolist())) == len(texts)
    assert hash_texts(column.slice(9_000, 17)).tolist() == whole[9_000:9_017].tolist()
    assert hash_texts(pa.chunked_array([column.slice(0, 5), column.slice(5)])).tolist() == whole.tolist()
    assert hash_texts(column.cast(pa.binary())).tolist() == whole.tolist()
    assert [hash_texts(pa.array([text]))[0] for text in texts[:99]] == whole[:99].tolist()


def test_texts_that_differ_in_one_letter_or_in_their_end_differ() -> None:
    texts = ["abcdefgh", "abcdefgi", "abcdefgh\0", "abcdefgh\0\0", "bbcdefgh", "abcdefg", "", "\0"]
    assert len(set(hash_texts(pa.array(texts)).tolist())) == len(texts)


def test_a_text_of_any_length_has_the_hash_that_it_has_alone() -> None:
    texts = ["x" * 300_000, "", "short", "y" * 262_151]
    assert hash_texts(pa.array(texts)).tolist() == [hash_texts(pa.array([text]))[0] for text in texts]


def test_null_is_as_empty_and_a_seed_makes_it_another_hash() -> None:
    column = pa.array(["a", None, "", "b"])
    plain, seeded = hash_texts(column), hash_texts(column, OTHER)
    assert plain[1] == plain[2]
    assert not (plain == seeded).any()
    assert hash_texts(column, np.array([OTHER, 0, 0, OTHER], np.uint64)).tolist() == [
        seeded[0],
        plain[1],
        plain[2],
        seeded[3],
    ]
    assert hash_texts(pa.array([None], pa.string())).tolist() == [plain[1]]
    assert hash_texts(pa.array([], pa.string())).tolist() == []
