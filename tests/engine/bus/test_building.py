"""Envelopes of one batch: what they share is worked out once, and makes no difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from engine.bus import context as contexts
from engine.bus.building import EnvelopeBuilder, Prepared
from engine.bus.catalog import TopicPolicy
from engine.bus.context import Context
from engine.bus.errors import PublishRefused
from engine.bus.message import Message, decode
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem
from engine.bus.transport import Priority

POLICY = TopicPolicy("booking.created", "inventory", ttl_s=3600)
NOW_MS = 1_790_000_000_000

OPTIONS = {
    "nothing": PublishOptions(),
    "a key": PublishOptions(type="booking.made", key="h1", subject="room 7"),
    "headers": PublishOptions(headers={"tenant": "acme"}),
    "a due time": PublishOptions(delay_s=90, ttl_s=60),
    "ids of its own": PublishOptions(message_id="m1", correlation_id="c1", causation_id="b1", source="/crm"),
    "a trace": PublishOptions(traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tracestate="a=1"),
    "a time": PublishOptions(time=datetime(2026, 11, 21, 8, 0, tzinfo=UTC), priority=Priority.HIGH),
}


@pytest.fixture
def builder() -> EnvelopeBuilder:
    return EnvelopeBuilder(POLICY, source="/test", now_ms=NOW_MS)


def comparable(message: Message) -> Message:
    """Without what is each message's own."""
    return msgspec.structs.replace(message, id="", correlationid="", traceparent=message.traceparent[:3])


def decoded(made: Prepared | PublishRefused) -> Message:
    if isinstance(made, PublishRefused):
        raise made
    return decode(made.outgoing.body)


def made(builder: EnvelopeBuilder, *options: PublishOptions) -> Iterator[Message]:
    for made in builder.prepare([BatchItem({"n": number}, each) for number, each in enumerate(options)]):
        yield decoded(made)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_message_that_shares_its_options_is_as_one_that_does_not(
    builder: EnvelopeBuilder, options: PublishOptions
) -> None:
    first, second = made(builder, options, options)
    (alone,) = made(EnvelopeBuilder(POLICY, source="/test", now_ms=NOW_MS), options)
    assert comparable(first) == comparable(alone)
    assert comparable(msgspec.structs.replace(second, data=first.data)) == comparable(first)
    assert (first.json(), second.json()) == ({"n": 0}, {"n": 1})
    # What is each message's own differs, unless the options name it
    assert (second.id == first.id) == bool(options.message_id)
    assert (second.correlationid == second.id) == (not options.correlation_id)
    assert (second.traceparent[3:35] == first.traceparent[3:35]) == bool(options.traceparent)


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_messages_made_in_any_number_of_goes_have_ids_and_traces_of_their_own(
    builder: EnvelopeBuilder, at_once: int
) -> None:
    items = [BatchItem({}, PublishOptions())] * 8
    messages = [decoded(made) for at in range(0, 8, at_once) for made in builder.prepare(items[at : at + at_once])]
    ids = [message.id for message in messages]
    assert ids == sorted(set(ids))
    assert len({message.traceparent for message in messages}) == 8
    assert [message.correlationid for message in messages] == ids


def test_other_options_or_another_content_type_are_not_taken_for_the_last(builder: EnvelopeBuilder) -> None:
    plain, keyed = PublishOptions(), PublishOptions(key="h1")
    messages = list(made(builder, plain, keyed, plain))
    assert [message.partitionkey for message in messages] == ["", "h1", ""]
    binary = builder.message(BatchItem(None, plain, b"\x00", "application/octet-stream"))
    again = builder.message(BatchItem({"n": 1}, plain))
    assert (binary.datacontenttype, binary.data_base64) == ("application/octet-stream", b"\x00")
    assert (again.datacontenttype, again.data_base64) == ("application/json", None)


def test_messages_do_not_share_their_headers(builder: EnvelopeBuilder) -> None:
    first, second = made(builder, *[OPTIONS["headers"]] * 2)
    first.extensions["tenant"] = "changed"
    assert second.extensions == {"tenant": "acme"}


def test_options_that_were_refused_are_refused_again(builder: EnvelopeBuilder) -> None:
    bad = PublishOptions(type="line\nbreak")
    for _ in range(2):
        with pytest.raises(PublishRefused, match="type"):
            list(made(builder, bad))


def test_what_is_written_by_its_form_is_read_as_it_was_meant(builder: EnvelopeBuilder) -> None:
    # Given texts that JSON escapes, in everything that messages of the same options share
    odd = PublishOptions(key='a"b\\c', subject="Zürich 🛎 \u2028", headers={"tenant": 'q"\\'}, source='/s"x')
    payloads = [{"text": 'x"y\\z\n🛎'}, [1, 2.5, None], "plain", 7, msgspec.Raw(b'{"raw": 1}')]
    messages = [decoded(made) for made in builder.prepare([BatchItem(payload, odd) for payload in payloads])]
    for message, payload in zip(messages, payloads, strict=True):
        assert (message.partitionkey, message.subject, message.source) == ('a"b\\c', "Zürich 🛎 \u2028", '/s"x')
        assert message.extensions == {"tenant": 'q"\\'}
        assert message.json() == ({"raw": 1} if isinstance(payload, msgspec.Raw) else payload)
    assert len({message.id for message in messages}) == len(messages)


def test_inside_a_handler_all_of_a_batch_inherit_from_what_is_handled() -> None:
    cause = Message(id="m0", source="/s", type="t", correlationid="c0", traceparent=OPTIONS["a trace"].traceparent)
    token = contexts.enter(Context(cause, "t", "g", 1, NOW_MS))
    try:
        builder = EnvelopeBuilder(POLICY, source="/test", now_ms=NOW_MS)
        messages = list(made(builder, *[PublishOptions()] * 3))
    finally:
        contexts.leave(token)
    assert {(message.correlationid, message.causationid) for message in messages} == {("c0", "m0")}
    assert {message.traceparent[3:35] for message in messages} == {cause.traceparent[3:35]}
    assert len({message.traceparent for message in messages}) == 3


def test_each_message_of_a_batch_is_held_against_the_schema() -> None:
    class Even:
        uri = "urn:even"

        def problem(self, payload: object) -> tuple[str, str] | None:
            return None if payload in ({"n": 0}, {"n": 2}) else ("n", "is odd")

    policy = TopicPolicy("booking.created", "inventory", schema=Even())
    builder = EnvelopeBuilder(policy, source="/test", now_ms=NOW_MS)
    options = PublishOptions()
    payloads = [{"n": 0}, {"n": 2}, {"n": 1}, {"n": 0}, {"n": object()}, {"n": 2}, {"n": 2}]
    answers = builder.prepare([BatchItem(payload, options) for payload in payloads])
    assert [isinstance(answer, PublishRefused) for answer in answers] == [False, False, True, False, True, False, False]
    assert "is odd" in str(answers[2])
    assert "cannot be written as JSON" in str(answers[4])
    good = [answer for answer in answers if isinstance(answer, Prepared)]
    assert [decoded(each).json() for each in good] == [{"n": 0}, {"n": 2}, {"n": 0}, {"n": 2}, {"n": 2}]
    assert {decoded(each).dataschema for each in good} == {"urn:even"}
    assert len({each.outgoing.message_id for each in good}) == len(good)


def test_what_is_asked_for_beside_the_payload_is_kept(builder: EnvelopeBuilder) -> None:
    until = datetime(2031, 1, 1, tzinfo=UTC)
    (message,) = made(builder, PublishOptions(sequence="7", dataschema="urn:x:1", expires=until))
    assert (message.sequence, message.dataschema, message.expirytime) == ("7", "urn:x:1", "2031-01-01T00:00:00.000Z")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (PublishOptions(classification="personal"), "classification"),
        (PublishOptions(expires=datetime(2020, 1, 1, tzinfo=UTC)), "expires"),
        (PublishOptions(expires=datetime(2031, 1, 1, tzinfo=UTC), ttl_s=5), "expires"),
        (PublishOptions(expires=datetime(2031, 1, 1, tzinfo=UTC).replace(tzinfo=None)), "expires"),
        (PublishOptions(sequence="x" * 5_000), "sequence"),
        (PublishOptions(dataschema="a\nb"), "dataschema"),
    ],
    ids=["another class", "expired", "two expiries", "no offset", "too long", "a control character"],
)
def test_what_cannot_be_kept_is_refused_by_its_name(
    builder: EnvelopeBuilder, options: PublishOptions, field: str
) -> None:
    (refused,) = builder.prepare([BatchItem({"n": 1}, options)])
    assert isinstance(refused, PublishRefused)
    assert (refused.field, bool(refused.remedy)) == (field, True)


class AnySchema:
    """Takes every payload there is."""

    uri = "urn:hbus:schema:booking.created:1"

    def problem(self, payload: object) -> tuple[str, str] | None:
        return None


def test_a_message_without_a_payload_is_refused_where_a_schema_holds_and_those_beside_it_go() -> None:
    builder = EnvelopeBuilder(dataclasses.replace(POLICY, schema=AnySchema()), source="/test", now_ms=NOW_MS)
    first, refused, last = builder.prepare([BatchItem(None), BatchItem(msgspec.Raw(b"")), BatchItem({"n": 1})])
    assert (decoded(first).json(), decoded(last).json()) == (None, {"n": 1})
    assert isinstance(refused, PublishRefused)
    assert refused.field == "payload"
    assert "no payload" in refused.what
