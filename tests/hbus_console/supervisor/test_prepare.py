from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import override_settings

from engine.core.errors import ConfigurationError
from hbus_console.alerts.models import Rule
from hbus_console.supervisor import prepare


@pytest.fixture
def assets(tmp_path: Path) -> Iterator[Path]:
    """One folder of static files in the place of all others."""
    folder = tmp_path / "assets"
    folder.mkdir()
    (folder / "app.css").write_text("body { margin: 0 }")
    finders.get_finder.cache_clear()
    with override_settings(
        STATIC_ROOT=tmp_path / "static",
        STATICFILES_DIRS=[folder],
        STATICFILES_FINDERS=["django.contrib.staticfiles.finders.FileSystemFinder"],
    ):
        yield folder
    finders.get_finder.cache_clear()


def _collect() -> list[str]:
    said: list[str] = []
    finders.get_finder.cache_clear()
    prepare.collect_assets(said.append)
    return said


def test_assets_are_collected_once(assets: Path, tmp_path: Path) -> None:
    assert len(_collect()) == 1
    assert (tmp_path / "static" / "app.css").read_text() == "body { margin: 0 }"
    assert _collect() == []


def test_assets_are_collected_again_after_any_change(assets: Path, tmp_path: Path) -> None:
    _collect()
    (assets / "app.css").write_text("body { margin: 1px }")
    assert len(_collect()) == 1
    assert (tmp_path / "static" / "app.css").read_text() == "body { margin: 1px }"
    (assets / "more.js").write_text("")
    assert len(_collect()) == 1
    (assets / "more.js").unlink()
    assert len(_collect()) == 1
    assert not (tmp_path / "static" / "more.js").exists()


def test_missing_assets_are_refused_with_the_command_that_brings_them(tmp_path: Path) -> None:
    with (
        override_settings(STATIC_ROOT=tmp_path / "static", STATICFILES_DIRS=[("vendor", tmp_path / "gone")]),
        pytest.raises(ConfigurationError, match="make assets"),
    ):
        _collect()
    finders.get_finder.cache_clear()


@pytest.mark.django_db(databases=["default", "ledger"])
def test_a_migrated_installation_has_nothing_to_migrate() -> None:
    assert prepare.aliases_to_migrate() == []


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_a_database_that_is_behind_is_named() -> None:
    call_command("migrate", "ledger", "zero", database="ledger", verbosity=0)
    try:
        assert "ledger" in prepare.aliases_to_migrate()
    finally:
        call_command("migrate", database="ledger", verbosity=0)


@pytest.mark.django_db(databases=["default", "ledger"])
def test_a_new_installation_begins_with_alert_rules(assets: Path) -> None:
    said: list[str] = []
    prepare.prepare(said.append)
    prepare.prepare(said.append)
    assert [line for line in said if "alert rules" in line] == [
        f"Made the {Rule.objects.count()} alert rules that every installation begins with …"
    ]
