"""The contract for others on NSQ: a message is a CloudEvents envelope in a message of nsqd, and nothing else.

Here nsqd's own HTTP interface and its own tool publish and read, with nothing of hbus in between.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.message import decode
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.core.facts import NullFacts
from hbus_console.supervisor import nsqd
from tests.engine.bus.transports.nsq.conftest import GROUP, TOPIC, Bench, eventually, settle, take
from tests.engine.bus.transports.nsq.raw import RawClient, post, tcp_port

ENVELOPE = {
    "specversion": "1.0",
    "id": "from-curl-1",
    "source": "/partner",
    "type": "booking.created",
    "partitionkey": "room 7",
    "datacontenttype": "application/json",
    "data": {"nights": 2},
}


def test_what_curl_posts_to_nsqd_is_a_message_like_any_other(bench: Bench, nsqd_url: str) -> None:
    assert post(f"{nsqd_url}/pub?topic={bench.nsq_topic}", json.dumps(ENVELOPE).encode()) == 200

    receiver = bench.receiver()
    (delivery,) = take(receiver, 1)

    message = decode(delivery.body)
    assert (message.id, message.partitionkey, message.json()) == ("from-curl-1", "room 7", {"nights": 2})
    assert settle(receiver, [delivery]) == [True]


def test_several_at_once_one_a_line(bench: Bench, nsqd_url: str) -> None:
    lines = [json.dumps({**ENVELOPE, "id": f"line-{number}"}) for number in range(5)]
    post(f"{nsqd_url}/mpub?topic={bench.nsq_topic}", "\n".join(lines).encode())

    assert {decode(each.body).id for each in take(bench.receiver(), 5)} == {f"line-{number}" for number in range(5)}


def test_what_a_producer_publishes_any_client_reads_as_one_envelope(bench: Bench, nsqd_url: str) -> None:
    catalog = StaticCatalog(TopicPolicy(TOPIC, "Reservations", priorities=False))
    producer = Producer(lambda _: bench.transport, catalog, source="/hotel", facts=NullFacts())
    receipt = producer.publish(TOPIC, {"nights": 3}, PublishOptions(key="room 8"))

    client = RawClient(tcp_port(nsqd_url), bench.nsq_topic, GROUP)
    nsq_id, attempts, body = client.next()
    client.finish(nsq_id)
    client.close()
    producer.close()

    envelope = json.loads(body)
    assert (envelope["specversion"], envelope["id"], envelope["partitionkey"]) == ("1.0", receipt.message_id, "room 8")
    assert envelope["data"] == {"nights": 3}
    assert attempts == 1


def test_nsqs_own_tools_publish_and_tail(bench: Bench, nsqd_url: str) -> None:
    address = f"127.0.0.1:{tcp_port(nsqd_url)}"
    tail = subprocess.Popen(
        [nsqd.folder() / "nsq_tail", f"-topic={bench.nsq_topic}", f"-nsqd-tcp-address={address}", "-n=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        eventually(lambda: len(_channels(nsqd_url, bench.nsq_topic)) == 2)
        time.sleep(0.2)
        subprocess.run(
            [nsqd.folder() / "to_nsq", f"-topic={bench.nsq_topic}", f"-nsqd-tcp-address={address}"],
            input=json.dumps(ENVELOPE) + "\n",
            text=True,
            check=True,
            capture_output=True,
            timeout=60,
        )
        said, _ = tail.communicate(timeout=60)
    finally:
        tail.kill()

    assert json.loads(said.strip().splitlines()[-1]) == ENVELOPE
    assert decode(take(bench.receiver(), 1)[0].body).id == "from-curl-1"


def _channels(nsqd_url: str, topic: str) -> list[str]:
    with urllib.request.urlopen(f"{nsqd_url}/stats?format=json&topic={topic}", timeout=5) as answer:
        return [each["channel_name"] for one in json.load(answer)["topics"] for each in one["channels"]]
