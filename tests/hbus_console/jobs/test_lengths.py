"""How long a secret is tells nobody: not the limit of what lies beside it, and not the answer of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from engine.core.errors import BadInput
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.api.shapes import MOST_LISTED
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import MOST_KEPT
from hbus_console.jobs.services.jobs import change_job, restore_version
from hbus_console.jobs.showing import MASK
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
URL = "https://1.1.1.1/close"
MOST = 64_000


def _padded(size: int, **more: Any) -> dict[str, Any]:
    """Parameters that are so many bytes as they are written."""
    bare = len(msgspec.json.encode({**more, "pad": ""}))
    return {**more, "pad": "x" * (size - bare)}


def _outcome(parameters: Mapping[str, Any]) -> str:
    try:
        change_job(SYSTEM, "close-of-day", {"parameters": parameters})
    except BadInput as refused:
        return str(refused)
    return "taken"


@pytest.mark.parametrize("secret", ["short", "l" * 900, "l" * 30_000])
def test_a_limit_by_the_length_says_nothing_of_a_secret(make_job: MakeJob, secret: str) -> None:
    """Found by a stranger: the limit counted what stands behind the mask, and told it a byte at a time."""
    make_job("http", URL, parameters={"password": secret})
    assert _outcome(_padded(MOST, password=MASK)) == "taken"
    assert Job.objects.get().parameters["password"] == secret
    refused = _outcome(_padded(MOST + 1, password=MASK))
    assert refused == "Parameters is larger than 64,000 bytes. Shorten it."


def test_a_secret_that_is_typed_counts_as_what_is_typed(make_job: MakeJob) -> None:
    make_job("http", URL, parameters={"password": "short"})
    assert _outcome(_padded(MOST, password="p" * 500)) == "taken"
    assert "64,000" in _outcome(_padded(MOST + 1, password="p" * 500))


def test_nobody_keeps_any_number_of_secrets_by_typing_them_one_after_the_other(make_job: MakeJob) -> None:
    make_job("http", URL, parameters={})
    kept: dict[str, Any] = {}
    for number in range(40):
        told = _outcome({**kept, f"secret_{number}": "s" * 60_000})
        if told != "taken":
            break
        kept[f"secret_{number}"] = MASK
    assert told.startswith("Parameters hold more secrets than are kept: 1,000,000 bytes, each of them counted")
    assert len(msgspec.json.encode(Job.objects.get().parameters)) <= MOST_KEPT


def test_what_is_kept_is_counted_by_the_begun_thousand_so_that_its_bound_tells_no_length(make_job: MakeJob) -> None:
    """Beside 16 secrets of their own somebody comes near the bound with another's, of whichever length."""
    told = {}
    for length in (1, 500, 990):
        Job.objects.all().delete()
        own = {f"secret_{number}": "s" * 60_000 for number in range(16)}
        make_job("http", URL, parameters={})
        Job.objects.update(parameters={**own, "password": "p" * length})
        masks = {**dict.fromkeys(own, MASK), "password": MASK}
        told[length] = [_outcome(_padded(size, **masks)) for size in (22_000, 23_000, 24_000)]
    assert len(set(map(tuple, told.values()))) == 1, told
    assert {"taken"} < set(told[1]), "the bound is among these"


def test_a_version_with_more_than_anybody_may_write_at_once_is_restored(make_job: MakeJob) -> None:
    make_job("http", URL, parameters={"password": "l" * 30_000})
    assert _outcome(_padded(MOST, password=MASK)) == "taken"
    assert _outcome({"password": MASK}) == "taken"
    restored = restore_version(SYSTEM, "close-of-day", 2, "it was better")
    assert len(msgspec.json.encode(restored.parameters)) > MOST


def test_as_text_nothing_stands_for_a_secret(make_job: MakeJob) -> None:
    with pytest.raises(BadInput, match="larger than 64,000 bytes"):
        make_job("http", URL, parameters=msgspec.json.encode(_padded(MOST + 1)).decode())
    with pytest.raises(BadInput, match="larger than 64,000 bytes"):
        make_job("http", URL, parameters=_padded(MOST + 1))
    with pytest.raises(BadInput, match="larger than 10,000 bytes"):
        make_job("http", URL, options={"headers": {"X": "x" * 10_000}})


def test_a_list_tells_small_schemas_and_names_those_that_it_leaves_out(
    make_job: MakeJob, calling: Callable[..., Any]
) -> None:
    small = {"type": "object", "properties": {"hotel": {"type": "string"}}}
    large = {**small, "description": "d" * MOST_LISTED}
    make_job("http", URL, name="small", parameters_schema=small)
    make_job("http", URL, name="large", parameters_schema=large)
    make_job("http", URL, name="without")
    call = calling()
    listed = {each["name"]: each for each in call("GET", "jobs").json()["results"]}
    assert listed["small"]["schema"] == listed["small"]["parameters_schema"] == small
    assert listed["large"]["schema"] is listed["large"]["parameters_schema"] is None
    assert {name: each["left_out"] for name, each in listed.items()} == {
        "large": ["parameters_schema", "schema"], "small": [], "without": [],
    }  # fmt: skip
    one = call("GET", "jobs/large").json()
    assert one["schema"] == one["parameters_schema"] == large
    assert {**one, "schema": None, "parameters_schema": None, "left_out": ["parameters_schema", "schema"]} == listed[
        "large"
    ]
