from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from engine.bus import handlers
from engine.bus.context import Context
from engine.bus.errors import Unrecoverable
from engine.bus.handlers import adapt, find, registrations, subscription
from engine.bus.message import Message, decode
from engine.core.errors import BadInput, ConfigurationError


class Booking(msgspec.Struct):
    hotel: str
    nights: int


@dataclass
class Stay:
    hotel: str


class Room(TypedDict):
    number: int


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    before = dict(handlers._registered)
    handlers.clear()
    yield
    handlers._registered.update(before)


def message(data: bytes = b'{"hotel": "Algarve", "nights": 3, "number": 5}', **more: Any) -> Message:
    return Message(id="1", source="/s", type="t", data=msgspec.Raw(data), **more)


def context(of: Message) -> Context:
    return Context(of, topic="t", group="g", attempt=1, delivered_ms=0)


def given(function: Any, to: Message) -> None:
    adapt(function)(to, context(to))


def test_the_annotation_says_what_the_handler_is_given() -> None:
    seen: list[Any] = []

    def struct(event: Booking) -> None:
        seen.append(event)

    def data(event: Stay) -> None:
        seen.append(event)

    def typed(event: Room) -> None:
        seen.append(event)

    def plain(event: dict) -> None:  # type: ignore[type-arg]
        seen.append(event)

    def anything(event) -> None:  # type: ignore[no-untyped-def]
        seen.append(event)

    def raw(event: bytes) -> None:
        seen.append(event)

    def envelope(event: Message) -> None:
        seen.append(event)

    whole = message()
    for function in (struct, data, typed, plain, anything, raw, envelope):
        given(function, whole)
    everything = {"hotel": "Algarve", "nights": 3, "number": 5}
    assert seen == [
        Booking("Algarve", 3),
        Stay("Algarve"),
        {"number": 5},
        everything,
        everything,
        bytes(whole.data),
        whole,
    ]


def test_the_second_parameter_is_the_context() -> None:
    seen: list[Context] = []

    def handle(event: Any, context: Context) -> None:
        seen.append(context)

    given(handle, message())
    assert (seen[0].topic, seen[0].group, seen[0].attempt, seen[0].replayed) == ("t", "g", 1, False)
    given(handle, message(hbusreplay="redrive"))
    assert seen[1].replayed


def test_methods_and_defaults_work() -> None:
    class Handlers:
        def __init__(self) -> None:
            self.seen: list[Booking] = []

        def handle(self, event: Booking, *, dry_run: bool = False) -> None:
            self.seen.append(event)

    mine = Handlers()
    given(mine.handle, message())
    assert mine.seen == [Booking("Algarve", 3)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"hotel": "Algarve", "nights": "3"}', r"\$\.nights"),
        (b'{"hotel": "Algarve"}', "`nights`"),
        (b"[]", "expected|Expected"),
        (b"", "Expected"),
    ],
)
def test_a_payload_that_does_not_fit_is_unrecoverable_and_names_the_field(data: bytes, said: str) -> None:
    def handle(event: Booking) -> None:
        raise AssertionError("it must not be called")

    with pytest.raises(Unrecoverable, match=said):
        given(handle, message(data))


def test_bytes_do_not_fit_a_typed_handler() -> None:
    def handle(event: Booking) -> None: ...

    binary = Message(id="1", source="/s", type="t", data_base64=b"x", datacontenttype="image/png")
    with pytest.raises(Unrecoverable, match="image/png"):
        given(handle, binary)


def test_an_envelope_with_two_payloads_does_not_fit_and_says_so() -> None:
    def handle(event: Booking) -> None: ...

    both = decode(b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"n":1},"data_base64":"eA=="}')
    with pytest.raises(Unrecoverable, match="both data and data_base64"):
        given(handle, both)


def test_a_registration_carries_policy_and_name() -> None:
    @subscription(
        topic="booking.created",
        group="availability",
        transactional=True,
        concurrency=2,
        max_attempts=3,
        backoff_s=(1, 2),
        lease_s=15,
        ordering="key",
    )
    def handle(event: Booking) -> None: ...

    (registration,) = registrations()
    assert find("booking.created", "availability") is registration
    assert find("booking.created", "billing") is None
    assert (registration.topic, registration.group, registration.function) == (
        "booking.created",
        "availability",
        handle,
    )
    assert registration.name == f"{__name__}:{handle.__qualname__}"
    policy = registration.policy
    assert (policy.retry.max_attempts, policy.retry.backoff_s) == (3, (1, 2))
    assert (policy.concurrency, policy.lease_s, policy.transactional, policy.ordering) == (2, 15, True, "key")


def test_two_handlers_of_one_subscription_are_refused_but_a_reload_is_not() -> None:
    def make() -> Any:
        def handle(event: Booking) -> None: ...

        return handle

    subscription(topic="t", group="g")(make())
    again = make()
    subscription(topic="t", group="g")(again)
    assert registrations()[0].function is again

    with pytest.raises(ConfigurationError, match="two handlers"):

        @subscription(topic="t", group="g")
        def other(event: Booking) -> None: ...


def test_functions_that_cannot_work_are_refused() -> None:
    async def later(event: Booking) -> None: ...

    def nothing() -> None: ...

    def three(a: int, b: int, c: int) -> None: ...

    def unreadable(event: complex) -> None: ...

    for function, why in ((later, "coroutine"), (nothing, "takes 0"), (three, "takes 3"), (unreadable, "type")):
        with pytest.raises(ConfigurationError, match=why):
            adapt(function)


def test_options_that_cannot_work_are_refused_by_name() -> None:
    for field, options in (("max_attempts", {"max_attempts": 0}), ("backoff_s", {"backoff_s": ()})):
        with pytest.raises(BadInput) as refused:
            subscription(topic="t", group="g", **options)  # type: ignore[arg-type]
        assert refused.value.field == field
