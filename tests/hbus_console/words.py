"""Whether a page says something: the tokens of its forms, drawn anew each time, may have any letters within them."""

from __future__ import annotations

import re


def says(page: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", page) is not None
