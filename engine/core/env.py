"""Strict reading of settings from the environment: a malformed value is refused by name, never guessed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.core.errors import ConfigurationError

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


class Env:
    """Typed access to a mapping of strings. ``NAME_FILE`` may name a file that holds the value of ``NAME``."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = os.environ if values is None else values

    def text(self, name: str, default: str = "") -> str:
        if path := self._values.get(f"{name}_FILE"):
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise ConfigurationError(
                    f"{name}_FILE={path} cannot be read: {error.strerror}.",
                    remedy="Name a readable file, or set the value itself.",
                    field=f"{name}_FILE",
                ) from error
        return self._values.get(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name, "1" if default else "0").strip().lower()
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise ConfigurationError(f"{name}={value} is not a yes or a no.", remedy="Use 1 or 0.", field=name)

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        value = self.text(name, str(default)).strip()
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ConfigurationError(
                f"{name}={value} is not a whole number from {least} to {most}.",
                remedy=f"Default: {default}.",
                field=name,
            )
        return number

    def choice(self, name: str, default: str, options: Sequence[str]) -> str:
        """One of some words."""
        value = self.text(name, default).strip()
        if value not in options:
            raise ConfigurationError(f"{name}={value} is not known.", remedy=f"Use {', '.join(options)}.", field=name)
        return value

    def words(self, name: str, default: str = "") -> tuple[str, ...]:
        """A list with commas, blanks or both between its words, none of which may hold one."""
        return tuple(self.text(name, default).replace(",", " ").split())

    def counts(self, name: str, default: str = "") -> dict[str, int]:
        """Whole numbers from 0 by their words, in order: ``accounts:*=0 v1:messages=10``."""
        found = {}
        for each in self.words(name, default):
            word, _, number = each.rpartition("=")
            if not word or not number.isascii() or not number.isdecimal() or len(number) > 9:
                raise ConfigurationError(
                    f"{name} says {each!r}, which is no word with a number.",
                    remedy=f"Write words as in {default or 'word=1'}.",
                    field=name,
                )
            found[word] = int(number)
        return found
