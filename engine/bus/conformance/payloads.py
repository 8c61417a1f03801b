"""A transport moves opaque bytes: none of them, any of them, many of them."""

from __future__ import annotations

import pytest

from engine.bus.conformance.base import NOT_DECLARED, TransportTests, Workbench, bury, retry
from engine.bus.conformance.promises import keeps, lacking
from engine.bus.transport import Status

MEBIBYTE = 1024 * 1024

PAYLOADS = {
    "empty": b"",
    "one zero byte": b"\x00",
    "every byte": bytes(range(256)),
    "line ends and quotes": b"\r\n$5\r\n\"'\\|,{}[]",
    "unicode": "Übernachtung für zwei – 予約 🛎".encode(),
    "one mebibyte": bytes(range(256)) * (MEBIBYTE // 256),
}


@keeps("K33")
class PayloadConformance(TransportTests):
    def may_be_empty(self, bench: Workbench, body: bytes) -> None:
        if not body and lacking(bench.transport.capabilities, ["empty messages"]):
            pytest.skip(f"{NOT_DECLARED}empty messages")

    @pytest.mark.parametrize("body", PAYLOADS.values(), ids=PAYLOADS.keys())
    def test_a_body_arrives_byte_for_byte(self, bench: Workbench, body: bytes) -> None:
        self.may_be_empty(bench, body)
        bench.publish(body)

        (delivery,) = bench.take(bench.receiver(), 1)

        assert delivery.body == body
        assert isinstance(delivery.body, bytes)

    @pytest.mark.parametrize("body", PAYLOADS.values(), ids=PAYLOADS.keys())
    def test_a_body_survives_a_retry_and_the_dead_letters(self, bench: Workbench, body: bytes) -> None:
        self.may_be_empty(bench, body)
        bench.publish(body)
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver))
        again = bench.take_one(receiver)
        assert again.body == body

        bury(receiver, again, record=body)

        (letter,) = bench.admin.dead(bench.topic, bench.group)
        assert letter.body == body
        assert letter.record == body

    def test_an_error_text_of_any_kind_survives_in_the_history(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        error = "Zeile 1\nZeile 2\t\"quoted\" 'too' \\ | , [1] – 予約 \x00\x7f"
        retry(receiver, bench.take_one(receiver), error=error)

        assert bench.take_one(receiver).history[0].error == error

    def test_large_messages_among_small_ones_arrive(self, bench: Workbench) -> None:
        most = bench.transport.capabilities.max_bytes
        sizes = [1, MEBIBYTE, 1, 3 * MEBIBYTE, 2 * MEBIBYTE, 1]
        mixed = [bytes([65 + index]) * min(size, most) for index, size in enumerate(sizes)]
        bench.publish(*mixed)

        bench.expect(bench.take(bench.receiver(), len(mixed)), mixed)

    def test_an_envelope_beyond_the_limit_is_refused_alone_by_its_limit_and_no_size(self, bench: Workbench) -> None:
        limit = bench.transport.capabilities.max_bytes
        batch = [bench.outgoing(b"before"), bench.outgoing(b"x" * (limit + 1)), bench.outgoing(b"after")]

        outcomes = bench.transport.publish(bench.topic, batch)

        assert [outcome.status for outcome in outcomes] == [Status.OK, Status.FAILED, Status.OK]
        told = outcomes[1].error.replace(",", "")
        assert str(limit) in told
        # Whoever reads it may not be told what is masked in it, and a size tells that apart.
        assert str(limit + 1) not in told
        bench.expect(bench.drain(bench.receiver()), [b"before", b"after"])
