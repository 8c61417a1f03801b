"""Texts of strangers in columns of ours."""

from __future__ import annotations

from hashlib import blake2b


def fitting(text: str, most: int) -> str:
    """What stands for ``text`` in a column of ``most`` characters, 40 or more: itself where every database holds it,
    else a digest of it. Nobody reads it: it is compared with others alone.
    """
    if len(text) <= most and "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    return "#" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=19).hexdigest()
