"""How wide a text will be in a picture that is drawn where no browser can measure it."""

from __future__ import annotations

import unicodedata

from hbus_console.ui.formats import cut

#: In parts of the type's size, on the wide side of the fonts that an operating system shows: a text that is thought
#: too long is cut a little early, one that is thought too short runs out of its box.
_WIDTHS = {
    **dict.fromkeys("iljI.,:;|!'`·", 0.31),
    **dict.fromkeys('ftr()[]{}/\\-" ', 0.4),
    **dict.fromkeys("mw", 0.92),
    **dict.fromkeys("MW@%…—", 1.02),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+<=>#~", 0.76),
    **dict.fromkeys("0123456789", 0.62),
}
_OTHER, _MONO = 0.6, 0.61
#: Of two columns' width, such as 房; and beyond the letters, such as 🏨.
_FULL, _PICTURE = 1.05, 1.45
_PICTURES = 0x1F000


def width_of(text: str, size: float, *, mono: bool = False) -> float:
    """Its width at most, in pixels, in the type of so many; ``mono``: in the monospaced."""
    return size * sum(_width(letter, mono) for letter in text)


def fitted(text: str, room: float, size: float, *, mono: bool = False) -> str:
    """``text``, or as much of its beginning and end as ``room`` pixels take."""
    for most in range(min(len(text), int(room / size / min(_WIDTHS.values())) + 1), 1, -1):
        short = cut(text, most)
        if width_of(short, size, mono=mono) <= room:
            return short
    return text if len(text) <= 1 else "…"


def _width(letter: str, mono: bool) -> float:
    if ord(letter) >= _PICTURES:
        return _PICTURE
    if unicodedata.east_asian_width(letter) in "WF":
        return _FULL
    return _MONO if mono else _WIDTHS.get(letter, _OTHER)
