"""What the settings say of stores: names, and the broker of Celery."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kombu
import pytest

from engine.core.errors import ConfigurationError
from hbus_console.state import ROOT
from hbus_console.stores import Broker, broker_of, named_stores
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_servers import SentinelTrio
from tests.tls_proxy import TlsProxy, certificate


def test_stores_have_names() -> None:
    found = named_stores("busy=redis://:p=w@a:1/0\n  eu-1=sentinel://:p@a:1,b:2/main?replicas=1")

    assert found == {"busy": "redis://:p=w@a:1/0", "eu-1": "sentinel://:p@a:1,b:2/main?replicas=1"}
    assert named_stores("") == {}


@pytest.mark.parametrize(
    "text",
    [
        "redis://:secret@a",
        "Busy=redis://:secret@a",
        "busy=redis://a busy=redis://:secret@b",
        "busy=http://:secret@a",
        "twenty-characters-xx=redis://:secret@a",
        "busy=redis://:secret@a?replicas=all",
    ],
)
def test_a_store_that_is_named_badly_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        named_stores(text)

    assert caught.value.field == "HBUS_STORES"
    assert "HBUS_STORES" in caught.value.what
    assert caught.value.remedy
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("store", "broker", "url"),
    [
        ("", "", ""),
        ("redis://:p@a/0", "", "redis://:p@a/0"),
        ("redis://:p@a/0?replicas=1", "", "redis://:p@a/0"),
        ("redis://:p@a/0?replicas=1&socket_timeout=3", "", "redis://:p@a/0?socket_timeout=3"),
        ("rediss://:p@a/0", "", "rediss://:p@a/0?ssl_cert_reqs=required"),
        ("rediss://:p@a/0?ssl_cert_reqs=none&replicas=1", "", "rediss://:p@a/0?ssl_cert_reqs=none"),
        ("cluster://a,b", "redis://c/1", "redis://c/1"),
        ("sentinel://u:p%40@a:1,[::1]:2/main?db=3", "", "sentinel://u:p%40@a:1/3;sentinel://[::1]:2"),
    ],
)
def test_the_broker_is_the_store_unless_it_has_an_address_of_its_own(store: str, broker: str, url: str) -> None:
    assert broker_of(store, broker).url == url


def test_with_tls_the_broker_speaks_it_to_servers_and_sentinels() -> None:
    broker = broker_of("sentinels://:p@a:1/main?ssl_ca_certs=/ca.pem&sentinel_password=w")

    assert broker.use_ssl == {"ssl_cert_reqs": "required", "ssl_ca_certs": "/ca.pem"}
    assert broker.options["master_name"] == "main"
    assert broker.options["sentinel_kwargs"] == {
        "socket_timeout": 1.0,
        "ssl": True,
        "ssl_ca_certs": "/ca.pem",
        "password": "w",
    }
    assert "w" not in repr(broker).replace("Broker", "")


def test_the_broker_is_spoken_to_over_tls_and_trusts_no_stranger(own_store: StandaloneStore, tmp_path: Path) -> None:
    ours, others = certificate(tmp_path / "ours"), certificate(tmp_path / "others")
    proxy = TlsProxy(own_store.port, ours)
    url = f"rediss://:{own_store.password}@127.0.0.1:{proxy.port}/0"

    assert _through(broker_of(f"{url}?ssl_ca_certs={ours.path}")) == "hello"
    assert proxy.encrypted
    for stranger in (url, f"{url}?ssl_ca_certs={others.path}"):
        with pytest.raises(kombu.exceptions.OperationalError, match="certificate verify failed") as refused:
            _through(broker_of(stranger))
        assert own_store.password not in str(refused.value)
    proxy.close()


def _through(broker: Broker) -> object:
    """What comes back of a word that was sent."""
    with kombu.Connection(broker.url, ssl=broker.use_ssl, transport_options=broker.options) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("hello")
        taken = queue.get(timeout=60)
        taken.ack()
        queue.close()
        return taken.payload


def test_a_cluster_without_a_broker_is_refused_at_the_start(tmp_path: Path) -> None:
    environment = {**os.environ, "STATE": str(tmp_path), "REDIS_URL": "cluster://:secret@a:1,b:2"}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "Celery cannot use a cluster as its broker" in ended.stderr
    assert "BROKER_URL" in ended.stderr
    assert "secret" not in ended.stderr


def test_celerys_broker_follows_the_sentinels(own_trio: SentinelTrio) -> None:
    # Given a broker behind Sentinels, as Celery opens it, that has taken a message
    broker = broker_of(own_trio.url)
    with kombu.Connection(broker.url, transport_options=broker.options) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("before")
        taken = queue.get(timeout=60)
        assert taken.payload == "before"
        taken.ack()
        queue.close()

    # When its primary dies and another takes over
    killed = own_trio.kill_primary()
    own_trio.await_other_than(killed)

    # Then it goes on at that one
    with kombu.Connection(broker.url, transport_options=broker.options) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("after")
        taken = queue.get(timeout=60)
        assert taken.payload == "after"
        taken.ack()
        queue.close()
