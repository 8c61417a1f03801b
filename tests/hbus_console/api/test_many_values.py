"""A body of very many values is refused before it is read: reading it would keep everybody else waiting."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from engine.core.strict_json import MOST_TYPED
from hbus_console.topics.payloads import MOST_VALUES as MOST_PUBLISHED
from tests.hbus_console.api.conftest import TOPIC, Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.mark.parametrize(
    ("method", "path"),
    [("patch", f"topics/{TOPIC}"), ("post", "topics"), ("post", "jobs"), ("post", "operations/plan")],
)
def test_nobody_sends_more_values_than_are_read_at_once(program: Callable[..., Caller], method: str, path: str) -> None:
    call = program()
    answer = call(method, path, {"a": [0] * MOST_TYPED})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("The body holds more than 100,000 values.")
    # What is fewer is read, and told of by its names.
    assert "unknown field" in call(method, path, {"a": [0] * (MOST_TYPED - 1)}).json()["detail"]


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("messages", "application/json"),
        ("messages", "application/cloudevents+json"),
        ("messages/batch", "application/json"),
        ("messages/batch", "application/cloudevents-batch+json"),
    ],
)
def test_a_publish_holds_so_many_values(program: Callable[..., Caller], path: str, media_type: str) -> None:
    body = json.dumps({"data": [0] * MOST_PUBLISHED})
    answer = program()("post", f"topics/{TOPIC}/{path}", json.loads(body), content_type=media_type)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("The body holds more than 500,000 values.")


def test_a_long_text_is_one_value(program: Callable[..., Caller]) -> None:
    answer = program()("post", f"topics/{TOPIC}/messages", {"data": "[,{" * MOST_PUBLISHED})
    assert "values" not in answer.json().get("detail", "")
