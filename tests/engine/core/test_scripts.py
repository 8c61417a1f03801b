"""How scripts are read."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path

from engine.core.scripts import load_scripts


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
