"""Stores that are spoken to over TLS: a server, one behind a Sentinel, and a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from engine.core.errors import ConfigurationError, Unavailable
from engine.core.scripts import Script
from engine.core.store import open_client
from engine.core.store.failures import NotSent
from engine.core.store.link import Link
from engine.core.store.tls import tls_trouble
from hbus_console.supervisor import checks, store
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_servers import Server, port_with_bus, until
from tests.tls_proxy import Certificate, TlsProxy, certificate

SCRIPT = Script("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("others"))


@pytest.fixture
def proxy(own_store: StandaloneStore, ours: Certificate) -> Iterator[TlsProxy]:
    made = TlsProxy(own_store.port, ours)
    yield made
    made.close()


def address(proxy: TlsProxy, store: StandaloneStore, words: str, *, scheme: str = "rediss") -> str:
    return f"{scheme}://:{store.password}@127.0.0.1:{proxy.port}/0?{words}"


def works(url: str, prefix: str) -> None:
    """Both ways to the store: redis-py's client, and the one that knows what was sent."""
    client, link = open_client(url), Link.open(url)
    link.ping()
    assert link.run(SCRIPT, [f"{{{prefix}}}:n"], [3]) == 3
    assert client.get(f"{{{prefix}}}:n") == b"3"
    large = b"x" * 3_000_000
    link.command("SET", f"{{{prefix}}}:large", large)
    assert client.get(f"{{{prefix}}}:large") == large
    client.close()
    link.close()


def refusal(url: str, secret: str) -> str:
    """What both ways and the check at the start say; none tells the password."""
    with pytest.raises(NotSent) as linked:
        Link.open(url).command("PING")
    with pytest.raises(redis.ConnectionError) as plain:
        open_client(url).ping()
    with pytest.raises(ConfigurationError) as checked:
        checks.check_store(url)
    assert checked.value.field == "REDIS_URL"
    assert checked.value.what == linked.value.what
    assert checked.value.remedy == linked.value.remedy
    for said in (linked, plain, checked):
        assert secret not in repr(said.value) + str(said.value)
    return str(linked.value)


def test_a_server_is_spoken_to_over_tls(
    proxy: TlsProxy, own_store: StandaloneStore, ours: Certificate, prefix: str
) -> None:
    url = address(proxy, own_store, f"ssl_ca_certs={ours.path}")
    works(url, prefix)
    assert checks.check_store(url) == []
    assert proxy.encrypted


def test_a_certificate_of_an_unknown_authority_is_refused(
    proxy: TlsProxy, own_store: StandaloneStore, others: Certificate
) -> None:
    for words in (f"ssl_ca_certs={others.path}", ""):
        said = refusal(address(proxy, own_store, words), own_store.password)
        assert (
            f"127.0.0.1:{proxy.port} cannot be used: its certificate is not trusted (self-signed certificate)" in said
        )
        assert "in REDIS_URL, behind the ?: ssl_ca_certs=" in said


def test_a_certificate_for_another_name_is_refused(own_store: StandaloneStore, tmp_path: Path) -> None:
    elsewhere = certificate(tmp_path, name="DNS:store.example")
    proxy = TlsProxy(own_store.port, elsewhere)
    said = refusal(address(proxy, own_store, f"ssl_ca_certs={elsewhere.path}"), own_store.password)
    assert "its certificate is for another name" in said
    assert "Write the name that its certificate gives in REDIS_URL" in said
    proxy.close()


def test_a_server_without_tls_is_told_from_one_that_is_away(own_store: StandaloneStore, ours: Certificate) -> None:
    url = f"rediss://:{own_store.password}@127.0.0.1:{own_store.port}/0?ssl_ca_certs={ours.path}"
    # It takes the handshake for a command, which may lack its end: then it waits for the rest.
    client = open_client(url, answer_timeout_s=0.3, connect_timeout_s=0.3)
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)) as refused:
        client.ping()
    trouble = tls_trouble(refused.value, field="HBUS_STORES")
    assert trouble is not None
    assert trouble.what == "it does not answer to TLS"
    assert trouble.remedy.startswith("Write redis://, sentinel:// or cluster:// in HBUS_STORES")


def test_an_encrypted_store_that_goes_away_is_away_and_no_matter_of_tls(
    proxy: TlsProxy, own_store: StandaloneStore, ours: Certificate
) -> None:
    url = address(proxy, own_store, f"ssl_ca_certs={ours.path}")
    client, link = open_client(url), Link.open(url)
    client.ping()
    link.ping()
    own_store.kill()
    for _ in range(3):
        with pytest.raises(redis.ConnectionError) as plain:
            client.ping()
        with pytest.raises(Unavailable) as linked:
            link.command("PING")
        assert tls_trouble(plain.value) is None
        assert "cannot be used" not in str(linked.value)


def test_a_store_may_ask_for_a_certificate_of_ours(
    own_store: StandaloneStore, ours: Certificate, others: Certificate, prefix: str
) -> None:
    proxy = TlsProxy(own_store.port, ours, clients=others)
    words = f"ssl_ca_certs={ours.path}"
    works(address(proxy, own_store, f"{words}&ssl_certfile={others.path}&ssl_keyfile={others.key}"), prefix)
    said = refusal(address(proxy, own_store, words), own_store.password)
    assert "it asks for a certificate of ours" in said
    assert "ssl_certfile=" in said
    proxy.close()


def test_a_file_that_cannot_be_read_is_named(proxy: TlsProxy, own_store: StandaloneStore, tmp_path: Path) -> None:
    url = address(proxy, own_store, f"ssl_ca_certs={tmp_path}/none.pem")
    for use in (Link.open, open_client, checks.check_store):
        with pytest.raises(ConfigurationError) as refused:
            use(url)
        assert str(refused.value).startswith(
            f"REDIS_URL names a file that cannot be read: ssl_ca_certs={tmp_path}/none"
        )
        assert refused.value.field == "REDIS_URL"
        assert own_store.password not in str(refused.value)


def test_a_file_that_is_no_certificate_is_refused(proxy: TlsProxy, own_store: StandaloneStore, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    said = refusal(address(proxy, own_store, f"ssl_ca_certs={tmp_path}/ca.pem"), own_store.password)
    assert "a file named behind the ? is no certificate" in said


def test_a_cluster_is_spoken_to_over_tls(tmp_path: Path, ours: Certificate, others: Certificate, prefix: str) -> None:
    # A cluster tells its clients the ports of its nodes: here that of the proxy, which must be known first.
    port = port_with_bus()
    proxy = TlsProxy(port, ours)
    lines = ["cluster-enabled yes", f"cluster-announce-port {proxy.port}"]
    server = Server(tmp_path / "node", "word-of-test", lines, port=port).start()
    try:
        # Not as a range: the oldest Redis that is promised knows none.
        server.client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        until("the cluster is whole", lambda: b"cluster_state:ok" in server.client.execute_command("CLUSTER", "INFO"))
        url = f"clusters://:word-of-test@127.0.0.1:{proxy.port}"
        works(f"{url}?ssl_ca_certs={ours.path}", prefix)
        assert proxy.encrypted
        assert "its certificate is not trusted" in refusal(f"{url}?ssl_ca_certs={others.path}", "word-of-test")
    finally:
        server.kill()
        proxy.close()


@pytest.fixture
def sentinel(own_store: StandaloneStore, ours: Certificate, tmp_path: Path) -> Iterator[tuple[TlsProxy, TlsProxy]]:
    """A Sentinel and the primary that it watches, both behind TLS; it gives clients the primary's port for TLS."""
    server = TlsProxy(own_store.port, ours, strict=False)
    port = store.free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nlogfile {tmp_path}/log\nrequirepass word-of-sentinel\n"
        f"sentinel monitor main 127.0.0.1 {server.port} 1\nsentinel auth-pass main {own_store.password}\n",
        encoding="utf-8",
    )
    watch = TlsProxy(port, ours)
    process = subprocess.Popen([str(store.find_binary()), str(config), "--sentinel"], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, password="word-of-sentinel")
    until("the Sentinel sees the primary", lambda: client.sentinel_master("main")["flags"] == "master")
    client.close()
    yield watch, server
    process.kill()
    process.wait()
    watch.close()
    server.close()


def test_a_server_behind_a_sentinel_is_spoken_to_over_tls(
    sentinel: tuple[TlsProxy, TlsProxy],
    own_store: StandaloneStore,
    ours: Certificate,
    others: Certificate,
    prefix: str,
) -> None:
    watch, server = sentinel
    url = f"sentinels://:{own_store.password}@127.0.0.1:{watch.port}/main?sentinel_password=word-of-sentinel"
    works(f"{url}&ssl_ca_certs={ours.path}", prefix)
    assert watch.encrypted
    assert server.encrypted

    said = refusal(f"{url}&ssl_ca_certs={others.path}", own_store.password)
    assert "its certificate is not trusted" in said
    assert "in REDIS_URL, behind the ?: ssl_ca_certs=" in said
    assert "word-of-sentinel" not in said
