from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import ConfigurationError
from hbus_console.supervisor import store
from hbus_console.supervisor.installation import Installation


def test_what_the_embedded_store_confirms_is_on_disk_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HBUS_STORE_FSYNC", raising=False)
    assert Installation.from_settings().store_fsync == "always"
    monkeypatch.setenv("HBUS_STORE_FSYNC", "everysec")
    assert Installation.from_settings().store_fsync == "everysec"
    config = store.write_config(tmp_path / "store", port=1, password="x", fsync="everysec")
    assert "appendfsync everysec\n" in config.read_text()


def test_another_word_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBUS_STORE_FSYNC", "no")
    with pytest.raises(ConfigurationError) as refused:
        Installation.from_settings()
    assert refused.value.field == "HBUS_STORE_FSYNC"
