"""How scripts are read."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path

import pytest

from engine.core.errors import Unavailable
from engine.core.scripts import ScriptFolder, load_scripts
from engine.core.store import open_client
from engine.core.store.failures import AnswerLost
from tests.engine.bus.transports.proxy import Proxy


def test_what_scripts_of_a_folder_share_stands_in_front_of_each_and_is_none_itself(tmp_path: Path) -> None:
    for name, text in {"common": "local one = 1", "first": "return one", "second": "return one + one"}.items():
        (tmp_path / f"{name}.lua").write_text(text, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no script", encoding="utf-8")
    scripts = load_scripts(tmp_path)
    assert {name: script.text for name, script in scripts.items()} == {
        "first": "local one = 1\nreturn one",
        "second": "local one = 1\nreturn one + one",
    }
    assert scripts["first"].name == "first"
    assert scripts["first"].sha == sha1(b"local one = 1\nreturn one", usedforsecurity=False).hexdigest()


def test_a_folder_whose_scripts_share_nothing_keeps_their_text(tmp_path: Path) -> None:
    (tmp_path / "only.lua").write_text("return 1", encoding="utf-8")
    assert load_scripts(tmp_path)["only"].text == "return 1"


def test_a_script_whose_answer_was_lost_may_have_run_and_one_that_was_not_sent_has_not(
    tmp_path: Path, redis_url: str, prefix: str
) -> None:
    (tmp_path / "count.lua").write_text("return redis.call('INCR', KEYS[1])", encoding="utf-8")
    port = redis_url.rpartition(":")[2].partition("/")[0]
    proxy = Proxy(int(port))
    with open_client(redis_url.replace(f":{port}", f":{proxy.port}")) as client, open_client(redis_url) as direct:
        scripts = ScriptFolder(client, tmp_path)
        scripts.call("count", [prefix], [])
        proxy.lose_in = 0
        with pytest.raises(AnswerLost):
            scripts.call("count", [prefix], [])
        assert direct.get(prefix) == b"2"
        # An answer all the same
        direct.set(prefix, "text")
        with pytest.raises(Exception, match="not an integer") as refused:
            scripts.call("count", [prefix], [])
        assert not isinstance(refused.value, AnswerLost)
        client.connection_pool.disconnect()
        proxy.close()
        with pytest.raises(Unavailable) as away:
            scripts.call("count", [prefix], [])
        assert not isinstance(away.value, AnswerLost)
