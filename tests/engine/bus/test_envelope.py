from __future__ import annotations

import json

import pytest

from engine.bus import message
from engine.bus.errors import MalformedEnvelope

GOOD = {
    "specversion": "1.0",
    "id": "1",
    "source": "/partner",
    "type": "stay.completed",
    "time": "2026-11-21T08:00:00.5+01:00",
    "expirytime": "2027-11-21T08:00:00Z",
    "hbusdue": "2026-12-01T00:00:00Z",
    "hbuspriority": "high",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tenant": "açme 🏨",
    "data": {"nights": 3},
}


def test_a_well_formed_envelope_is_read() -> None:
    assert message.read(json.dumps(GOOD).encode()).json() == {"nights": 3}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("id", ""),
        ("source", ""),
        ("type", "x" * 201),
        ("id", "x" * 65),
        ("time", "yesterday"),
        ("time", "2026-11-21T08:00:00"),
        ("expirytime", "2026-13-01T00:00:00Z"),
        ("hbusdue", "1790000000"),
        ("hbuspriority", "urgent"),
        ("traceparent", "00-abc-def-01"),
        ("tenant", "a\nb"),
        ("tenant", "é" * 2_049),
        ("subject", "\x7f"),
        ("partitionkey", "k" * 201),
    ],
)
def test_a_malformed_attribute_is_refused_by_name(attribute: str, value: str) -> None:
    with pytest.raises(MalformedEnvelope) as refused:
        message.read(json.dumps({**GOOD, attribute: value}).encode())
    assert refused.value.field == attribute
    assert refused.value.remedy


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(MalformedEnvelope) as refused:
        message.check_text("tenant", "a\ud800")
    assert refused.value.field == "tenant"


def test_two_payloads_are_refused() -> None:
    with pytest.raises(MalformedEnvelope) as refused:
        message.read(json.dumps({**GOOD, "data_base64": "AAA="}).encode())
    assert refused.value.field == "data"


def test_one_without_a_version_is_refused_from_outside_and_read_out_of_a_store() -> None:
    body = json.dumps({name: value for name, value in GOOD.items() if name != "specversion"}).encode()
    with pytest.raises(MalformedEnvelope) as refused:
        message.read(body)
    assert refused.value.field == "specversion"
    assert message.decode(body).json() == {"nights": 3}
