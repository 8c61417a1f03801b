"""What the commands refuse."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command


@pytest.mark.parametrize("options", [("--messages", "0"), ("--samples", "-1"), ("--peer-messages", "many")])
def test_a_bench_of_nothing_is_refused_by_name(options: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match=f"argument {options[0]}: {options[1]!r} is no whole number from 1 on"):
        call_command("bench", "bus", *options)


@pytest.mark.parametrize("options", [("--messages", "0"), ("--minutes", "0"), ("--minutes", "nan")])
def test_a_soak_of_nothing_is_refused_by_name(options: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match=f"argument {options[0]}: {options[1]!r} is no "):
        call_command("soak", *options)
