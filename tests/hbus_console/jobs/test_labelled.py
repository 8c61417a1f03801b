"""A name that tells may stand beside the value, in an object or a list, and not before it."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.errors import BadInput
from hbus_console.jobs.showing import MASK, masked, restored


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ([{"name": "DB_PASSWORD", "value": "S"}], [{"name": "DB_PASSWORD", "value": MASK}]),
        ([{"Key": "X-Auth", "Value": 7, "n": 1}], [{"Key": "X-Auth", "Value": MASK, "n": 1}]),
        ({"key": "api-key", "values": ["S"]}, {"key": "api-key", "values": MASK}),
        ([{"name": "hotel", "value": "HB-1"}], [{"name": "hotel", "value": "HB-1"}]),
        ([{"name": 7, "value": "HB-1"}], [{"name": 7, "value": "HB-1"}]),
        (["--password", "-S", "x"], ["--password", MASK, "x"]),
        (["-pass", "S"], ["-pass", MASK]),
        ({"key": "sk9LongEnoughToBeOne"}, {"key": MASK}),
        ({"Key": "booking/48213", "keys": "01J9ZK3V5QW8"}, {"Key": "booking/48213", "keys": "01J9ZK3V5QW8"}),
        ({"key": "f3b1c5d7e9f1a3b5c7d9"}, {"key": "f3b1c5d7e9f1a3b5c7d9"}),
        (["-p", "aB3dEfGh1jKlMnOpQ", "--key", "aB3dEfGh1jKlMnOpQ"], ["-p", MASK, "--key", MASK]),
        (["-p", "8080", [7], "-p", 5432], ["-p", "8080", [7], "-p", 5432]),
        (["--verbose", "-x"], ["--verbose", "-x"]),
        (["--pass-through=1", "x"], ["--pass-through=1", "x"]),
    ],
)
def test_a_name_that_tells_beside_a_value_hides_it(given: Any, shown: Any) -> None:
    assert masked({"given": given}) == {"given": shown}


def test_an_argument_that_tells_nothing_shows_no_item_of_what_its_name_tells() -> None:
    assert masked({"auth": ["--user", "S"]}) == {"auth": [MASK, MASK]}


def test_a_mask_under_another_label_stands_for_nothing() -> None:
    """Or whoever may trigger a job would read the value in the run."""
    known = {"set": {"name": "DB_PASSWORD", "value": "S", "n": 1}}
    hidden = masked(known)
    assert restored({"set": {"name": "DB_PASSWORD", "value": MASK, "n": 2}}, known, hidden)["set"]["value"] == "S"
    for label in ({"name": "hotel"}, {}, {"name": "DB_PASSWORD", "key": "x"}):
        with pytest.raises(BadInput, match="not known here"):
            restored({"set": {**label, "value": MASK}}, known, hidden)
