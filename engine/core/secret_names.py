"""What secrets are called: the one list for pages, the audit log, our own log and texts that programs print.

No list of names is ever whole. Of what has more than these, a schema says so (``writeOnly``).
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Parts of names that tell, whatever stands before and behind them. Where ``_`` stands, words may be joined in any way.
PARTS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "pgpass",
    "db_pass",
    "db_pw",
    "secret",
    "token",
    "credential",
    "authorization",
    "cookie",
    *(
        f"{of}_key"
        for of in (
            *("api", "access", "account", "encryption", "functions", "hmac", "master", "private", "signing", "ssh"),
            "subscription",
        )
    ),
)
#: Words of the names of single values that tell: parts of other words do not, what they head has its own names, and in
#: a text they are words of any sentence.
WORDS = frozenset(
    {"auth", "bearer", "cvc", "cvv", "digest", "otp", "pass", "pw", "sas", "sig", "signature", "totp"},
)
_PLAIN = tuple(part.replace("_", "") for part in PARTS)
_WORD = re.compile(r"[A-Z]*[a-z]+|[A-Z]+|[0-9]+")


@lru_cache(4_096)
def tells(name: str) -> bool:
    """Whether what is called so is a secret, whatever it is."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return any(part in plain for part in _PLAIN)


@lru_cache(4_096)
def hints(name: str) -> bool:
    """Whether a single value that is called so is a secret."""
    return any(word.lower() in WORDS for word in _WORD.findall(name))


def spelled(part: str) -> str:
    """One of :data:`PARTS` as a pattern for texts."""
    return part.replace("_", "[_-]?")
