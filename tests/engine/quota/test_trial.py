"""Traffic played against a limit: sums that come out, never more than the rule allows, and what a cut does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import BadInput
from engine.quota import OnLoss, Period, Rule
from engine.quota.trial import MOST_CALLS, Shape, Traffic, TrialPart, try_out

STEADY = Traffic(Shape.STEADY, 50, 20)


def _rule(limit: float, burst: float, **more: object) -> Rule:
    return Rule(id="tried", limit=limit, burst=burst, **more)  # type: ignore[arg-type]


_TRAFFIC = st.builds(Traffic, st.sampled_from(Shape), st.floats(0.5, 60), st.floats(1, 30), st.floats(0, 200))
_RULES = st.builds(_rule, st.floats(0.5, 100), st.floats(1, 100))


@given(_TRAFFIC, _RULES, st.integers(1, 4), st.sampled_from([0.0, 0.5]))
@settings(max_examples=60, deadline=None)
def test_whatever_comes_the_sums_come_out_and_no_more_goes_than_the_rule_allows(
    traffic: Traffic, rule: Rule, nodes: int, wait_s: float
) -> None:
    trial = try_out(rule, traffic, max_wait_s=wait_s, nodes=nodes)
    total = trial.total
    moments = list(traffic.moments())
    assert total.asked == len(moments)
    assert total.asked == total.admitted + total.refused
    assert total.delayed <= total.admitted
    assert abs(len(moments) - traffic.calls) <= 2 + 0.02 * traffic.calls
    assert all(before <= after for before, after in pairwise(moments))
    # Who waits goes later, when more has come in.
    assert total.admitted <= trial.allowed + 1
    assert trial.longest_wait_s <= wait_s


def test_who_keeps_to_the_limit_is_refused_nothing() -> None:
    assert try_out(_rule(60, 60), STEADY, nodes=3).total == TrialPart(1000, 1000, 0, 0)


def test_a_flood_gets_the_burst_and_then_the_limit() -> None:
    trial = try_out(_rule(10, 30), STEADY)
    assert 220 <= trial.total.admitted <= 231
    assert (trial.allowed, len(trial.slots)) == (230.0, 120)


def test_who_may_wait_is_delayed_before_it_is_refused() -> None:
    burst = Traffic(Shape.BURST, 1, 30, 20)
    assert try_out(_rule(10, 10), burst).total.refused > 0
    patient = try_out(_rule(10, 10), burst, max_wait_s=5).total
    assert (patient.refused, patient.delayed > 0) == (0, True)


def test_a_call_of_several_tokens_counts_as_several() -> None:
    trial = try_out(_rule(10, 10), Traffic(Shape.STEADY, 5, 20, tokens=4))
    assert trial.total.admitted <= trial.allowed == 52.5


@pytest.mark.parametrize(
    ("on_loss", "least", "most"), [(OnLoss.OPEN, 495, 500), (OnLoss.CLOSED, 0, 10), (OnLoss.FALLBACK, 15, 120)]
)
def test_cut_off_each_rule_goes_on_as_it_says(on_loss: OnLoss, least: int, most: int) -> None:
    trial = try_out(_rule(20, 20, on_loss=on_loss, fallback=0.1), STEADY, nodes=2, cut=(5.0, 15.0))
    admitted = sum(slot.admitted for slot in trial.slots[30:90])
    assert least <= admitted <= most
    before = sum(slot.admitted for slot in trial.slots[:30])
    assert before <= 20 * 5 + 21


def test_the_same_has_the_same_answer() -> None:
    assert try_out(_rule(20, 20), STEADY, nodes=3) == try_out(_rule(20, 20), STEADY, nodes=3)


def test_a_day_s_allowance_is_spent_and_then_nothing_goes() -> None:
    total = try_out(_rule(100, 0, period=Period.DAY), STEADY).total
    assert total.admitted == 100


@pytest.mark.parametrize(
    ("rule", "traffic", "nodes", "field"),
    [
        (_rule(5, 0, period=Period.AT_ONCE), STEADY, 1, "policy"),
        (_rule(5, 5), Traffic(Shape.STEADY, 1, 0), 1, "seconds"),
        (_rule(5, 5), Traffic(Shape.STEADY, 1, 4_000), 1, "seconds"),
        (_rule(5, 5), STEADY, 17, "nodes"),
        (_rule(5, 5), Traffic(Shape.STEADY, 1, 1_000), 16, "nodes"),
        (_rule(5, 5), Traffic(Shape.STEADY, MOST_CALLS, 2), 1, "rate"),
    ],
)
def test_what_cannot_be_played_is_refused_by_its_field(rule: Rule, traffic: Traffic, nodes: int, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        try_out(rule, traffic, nodes=nodes)
    assert refused.value.field == field
