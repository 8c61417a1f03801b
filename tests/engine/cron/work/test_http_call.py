"""A call is signed and named after its run, says what may be tried again, and takes little of what is answered."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http import HTTPMethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from engine.core.http_client import MOST_ANSWER, timed_client
from engine.core.secret_values import SecretValues
from engine.core.signing import SIGNATURE_HEADER
from engine.cron.work.call import WorkOutcome
from engine.cron.work.http_call import ANSWER_KEPT, HttpTarget, call_http
from tests.engine.cron.work.conftest import Given


class Partner(ThreadingHTTPServer):
    """Answers as it is told, and remembers what it was asked."""

    status = 200
    answer = b"thanks"
    phrase: str | None = None
    headers: dict[str, str] = {}

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answering(BaseHTTPRequestHandler):
    server: Partner

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        told = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, told, body))
        self.send_response(self.server.status, self.server.phrase)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        try:
            self.wfile.write(self.server.answer)
        except ConnectionError:
            self.close_connection = True

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - so the server looks them up

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def partner() -> Iterator[Partner]:
    server = Partner()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with timed_client(10) as made:
        yield made


def test_its_parameters_are_the_body_and_its_headers_name_the_run(
    partner: Partner, client: httpx.Client, given: Given
) -> None:
    context = given(hotel="HB-1")
    target = HttpTarget(f"{partner.url}/close", headers={"content-type": "application/vnd.x+json", "X-Own": "1"})
    assert call_http(context, target, client, b"secret").done
    ((method, path, headers, body),) = partner.asked
    assert (method, path, json.loads(body)) == ("POST", "/close", {"hotel": "HB-1"})
    assert headers["content-type"] == "application/vnd.x+json"
    assert (headers["x-hbus-job"], headers["x-hbus-run"], headers["x-hbus-attempt"]) == ("close-of-day", "1", "1")
    assert headers["idempotency-key"] == "run-1"
    assert headers[SIGNATURE_HEADER.lower()].startswith("t=")
    assert "thanks" in context.log.read()


def test_the_query_of_a_get_is_kept_and_says_values_as_queries_do(
    partner: Partner, client: httpx.Client, given: Given
) -> None:
    context = given(hotel="H 1", full=True, none=None, rooms=[1, 2])
    call_http(context, HttpTarget(f"{partner.url}/x?own=1", HTTPMethod.GET), client, b"s")
    assert partner.asked[0][1] == "/x?own=1&hotel=H+1&full=true&none=&rooms=1&rooms=2"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (204, (True, True)),
        (302, (False, False)),
        (404, (False, False)),
        (408, (False, True)),
        (429, (False, True)),
        (503, (False, True)),
    ],
)
def test_what_passes_by_itself_may_be_tried_again(
    partner: Partner, client: httpx.Client, given: Given, status: int, said: tuple[bool, bool]
) -> None:
    done, again = said
    partner.status, partner.answer, partner.headers = status, b"", {"Retry-After": "7"}
    outcome = call_http(given(), HttpTarget(partner.url), client, b"s")
    assert (outcome.done, outcome.again) == (done, again)
    assert ("asked to be tried again in 7 s" in outcome.reason) == (not done and again)


def test_nobody_there_may_be_tried_again(client: httpx.Client, given: Given) -> None:
    outcome = call_http(given(), HttpTarget("http://127.0.0.1:1/"), client, b"s")
    assert (outcome.done, outcome.again) == (False, True)


@pytest.mark.parametrize("url", ["http://xn--a/?key=s3cret", "https://[v1.x]/"])
def test_an_address_that_nobody_can_call_is_not_tried_again(client: httpx.Client, given: Given, url: str) -> None:
    outcome = call_http(given(), HttpTarget(url), client, b"s")
    assert (outcome.done, outcome.again) == (False, False)
    assert " is not called: " in outcome.reason
    assert "s3cret" not in outcome.reason


def test_a_long_answer_is_an_answer_and_its_beginning_is_kept(
    partner: Partner, client: httpx.Client, given: Given
) -> None:
    partner.answer = b"a" * (4 * MOST_ANSWER)
    context = given()
    assert call_http(context, HttpTarget(partner.url), client, b"s") == WorkOutcome(
        True, summary=f"{partner.url} answered 200 OK"
    )
    assert context.log.read().count("a" * ANSWER_KEPT) == 1


def test_a_secret_that_the_cut_goes_through_is_not_shown(partner: Partner, client: httpx.Client, given: Given) -> None:
    partner.answer = f"{'a ' * (ANSWER_KEPT // 2 - 15)}hbus_0123456789_{'s' * 40}".encode()
    context = given()
    assert call_http(context, HttpTarget(partner.url), client, b"s").done
    assert "ss" not in context.log.read()


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ('{"pin": "PINSECRET9"}', '{"pin": "[redacted]"}'),
        ("a " * (ANSWER_KEPT // 2 - 2) + "PINSECRET9", "a " * (ANSWER_KEPT // 2 - 2) + "[red"),
        ("p" * (4 * ANSWER_KEPT - 5) + "PINSECRET9", "p" * ANSWER_KEPT),
    ],
    ids=["whole", "where it is cut", "where no more is read"],
)
def test_what_it_was_given_in_secret_is_not_kept_of_an_answer_that_repeats_it(
    partner: Partner, client: httpx.Client, given: Given, answer: str, left: str
) -> None:
    partner.answer, partner.status = answer.encode(), 422
    context = given(pin="PINSECRET9")
    context.log.secrets = SecretValues(["PINSECRET9"])
    call_http(context, HttpTarget(partner.url), client, b"s")
    assert context.log.read().splitlines()[1] == left


def test_an_answer_that_comes_in_pieces_leaves_no_half_of_a_secret(given: Given) -> None:
    def in_pieces(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=iter([b"it is PINSE", b"CRET9"]))

    context = given(pin="PINSECRET9")
    context.log.secrets = SecretValues(["PINSECRET9"])
    with httpx.Client(transport=httpx.MockTransport(in_pieces)) as client:
        call_http(context, HttpTarget("http://partner.example/"), client, b"s")
    assert context.log.read().splitlines()[1] == "it is [redacted]"


def test_what_is_packed_is_not_unpacked(partner: Partner, client: httpx.Client, given: Given) -> None:
    partner.answer, partner.headers = gzip.compress(b"0" * 50_000_000), {"Content-Encoding": "gzip"}
    context = given()
    assert call_http(context, HttpTarget(partner.url), client, b"s").done
    assert "(its body is packed, and not shown)" in context.log.read()


@pytest.mark.parametrize(("status", "told"), [(200, "200 OK"), (404, "404 Not Found"), (599, "599")])
def test_the_phrase_of_who_answers_is_not_shown(
    partner: Partner, client: httpx.Client, given: Given, status: int, told: str
) -> None:
    """Found by a stranger: the client drops what is not ASCII of it, and then no comparison finds a secret."""
    partner.status, partner.answer, partner.phrase = status, b"", "caf\u00e9S3CRET"
    context = given(pin="caf\u00e9S3CRET")
    outcome = call_http(context, HttpTarget(partner.url), client, b"s")
    assert (outcome.summary or outcome.reason) == f"{partner.url} answered {told}"
    assert "S3CRET" not in context.log.read()
