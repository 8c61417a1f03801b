"""Takes what looks like a credential out of a text that is going to be kept or shown."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from engine.core.secret_names import PARTS, WORDS, spelled

REDACTED = "[redacted]"
#: Names of what is secret, as programs print them. PWD=/… is where a shell stands, and tokens are counted; what is told
#: of cookies and authorizations has patterns of its own.
_SPELLED = {"pwd": r"pwd(?!=/)|_pwd", "token": r"token(?!s\b|iz)"}
_NAMED = "|".join(_SPELLED.get(part, spelled(part)) for part in PARTS if part not in ("authorization", "cookie"))
_NAMED = f"(?:{_NAMED})"
#: No value: what is redacted already, and a small number.
_NONE = r"(?!\[|\d{1,3}(?:[\s&'\",;)}\]]|$))"
#: Nor what is said of one.
_SAID = (
    r"(?!(?:denied|empty|expired|false|incorrect|invalid|missing|none|null|rejected|required|revoked|true|unknown|wrong)"
    r"\b)"
)
#: Each repetition is bounded, so that no text makes the search longer than it is itself.
_LOOKS_SECRET: tuple[tuple[re.Pattern[str], str], ...] = (
    # Our own API tokens: the prefix stays, it is how one recognises them.
    (re.compile(r"\b(hbus_[0-9a-f]{10}_)[A-Za-z0-9_-]{16,}"), rf"\1{REDACTED}"),
    # The code of a ping address: whoever has it can say that a job is done.
    (re.compile(r"\b(hbp_)[A-Za-z0-9_-]{16,}"), rf"\1{REDACTED}"),
    (re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1{REDACTED}"),
    # The password in scheme://user:password@host.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:)[^\s/@]{1,500}(?=@)", re.IGNORECASE), rf"\1{REDACTED}"),
    # A key in its place: scheme://key@host.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^\s/:@?#]{1,500}(?=@)", re.IGNORECASE), rf"\1{REDACTED}"),
    # Secrets in the query of a webhook's URL.
    (
        re.compile(
            rf"([?&](?:[^\s=&#?]{{0,60}}(?:{'|'.join(map(spelled, PARTS))}|sig|auth)[^\s=&#?]{{0,60}}"
            rf"|key|code|{'|'.join(sorted(WORDS))})=)[^\s&#]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # Headers that are secrets whole, whatever stands in them.
    (
        re.compile(r"(\b(?:set-)?cookie:[ \t]{0,4})(?=[^\s=]{1,200}=)[^\r\n\"']{3,4000}", re.IGNORECASE),
        rf"\1{REDACTED}",
    ),
    (
        re.compile(
            r"(\bauthorization:[ \t]{0,4})(?!\[)"
            r"(?:(?:AWS4-HMAC-SHA256|Digest|Hawk|OAuth|Signature)[ \t][^\r\n]{3,4000}"
            r"|(?:[A-Za-z-]{1,20}[ \t]{1,2})?[^\s\"',;]{3,4000}(?=[ \t]{0,4}(?:$|[\r\"',;])))",
            re.IGNORECASE | re.MULTILINE,
        ),
        rf"\1{REDACTED}",
    ),
    # An access key of AWS, which says by its form that it is one.
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), rf"\1{REDACTED}"),
)

_NAMES = re.compile(rf"{_NAMED}|authorization|cookie")
#: What stands between quotes of one kind, of which the pattern's second group is the first; and where each has a
#: backslash before it. The other kind may stand in there, and nothing has to follow: no text is looked through twice.
_IN_QUOTES = r"(?:\\.|(?!\2)[^\\\n]){1,4000}"
_IN_ESCAPED_QUOTES = r"(?:\\{3}[\"']|\\(?!\2)[^\n]|(?!\2)[^\\\n]){1,4000}"
_ARGUMENT = rf"(?<!-)--[a-z0-9-]{{0,30}}?{_NAMED}[a-z0-9-]{{0,20}}"
#: What a credential whose scheme may be seen looks like once it is redacted.
_DONE = r"(?!(?:Bearer|Basic)\s{1,4}\[)"
_AFTER_A_NAME: tuple[tuple[re.Pattern[str], str], ...] = (
    # An argument of a program: --password …
    (re.compile(rf"({_ARGUMENT}[ \t]{{1,4}})(?!-){_NONE}[^\s&'\",;]{{3,500}}", re.IGNORECASE), rf"\1{REDACTED}"),
    # The same in quotes, and in a list of arguments.
    (
        re.compile(
            rf"({_ARGUMENT}(?:[ \t]{{1,4}}\$?|[\"']\s{{0,2}},\s{{0,4}}(?!.--))([\"'])){_IN_QUOTES}", re.IGNORECASE
        ),
        rf"\1{REDACTED}",
    ),
    (
        re.compile(
            rf"({_ARGUMENT}(?:[ \t]{{1,4}}|\\[\"']\s{{0,2}},\s{{0,4}}(?!..--))\\([\"'])){_IN_ESCAPED_QUOTES}",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # What a program prints of its settings: password=…, but for a small number of them, which is none.
    (re.compile(rf"({_NAMED}[A-Za-z0-9_-]{{0,20}}=){_NONE}[^\s&'\",;]{{3,500}}", re.IGNORECASE), rf"\1{REDACTED}"),
    # The same in quotes: of a shell, of a call as Python shows it, in JSON, also within a text of it.
    (
        re.compile(
            rf"((?:(?:{_NAMED}[A-Za-z0-9_-]{{0,20}}|\bauthorization)\s{{0,2}}[=:]\s{{0,2}}"
            rf"|(?:{_NAMED}[^\"'\\\n]{{0,20}}|authorization|cookie)[\"']\s{{0,4}}:\s{{0,4}})([\"'])){_DONE}{_IN_QUOTES}",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    (
        re.compile(
            rf"((?:{_NAMED}[^\"'\\\n]{{0,20}}|authorization|cookie)\\[\"']\s{{0,4}}:\s{{0,4}}\\([\"']))"
            rf"{_DONE}{_IN_ESCAPED_QUOTES}",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # The same in YAML and in headers: one word and no more, for what follows a colon may be prose.
    (
        re.compile(
            rf"({_NAMED}[A-Za-z0-9_-]{{0,20}}:[ \t]{{1,4}}){_NONE}{_SAID}[^\s\"',;]{{3,500}}"
            r"(?=[ \t]{0,4}(?:$|[,;)}\]\r]))",
            re.IGNORECASE | re.MULTILINE,
        ),
        rf"\1{REDACTED}",
    ),
)

#: What a code is called that is good once: as a name, and as people and text messages say it.
_CODE_NAME = (
    r"(?<![a-z0-9])(?:[a-z0-9]{1,20}[_-])?"
    r"(?:[th]?otp|(?:one[_-]?time|verification|login|mfa|2fa|sms)[_-]?(?:code|pin))(?:[_-]?(?:code|pin))?"
)
_CODE_SAID = r"\b(?:one[- ]time[- ](?:code|pin|passcode|password)|(?:verification|security|login) code|[th]?otp)\b"
_CODES = re.compile(r"otp|one[-_ ]?time|(?:verification|security|login|mfa|2fa|sms)[-_ ]?(?:code|pin)")
_GOOD_ONCE: tuple[tuple[re.Pattern[str], str], ...] = (
    # As a program prints it; behind a colon, where prose may follow, it has a digit.
    (re.compile(rf"({_CODE_NAME}=[\"']?){_NONE}{_SAID}[^\s&'\",;]{{3,500}}", re.IGNORECASE), rf"\1{REDACTED}"),
    (
        re.compile(
            rf"({_CODE_NAME}\\?[\"']?\s{{0,2}}:\s{{0,4}}\\?[\"']?)(?=[a-z-]{{0,20}}[0-9]){_NONE}[a-z0-9-]{{4,64}}",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    # As it is told to a person: digits alone, in one group or two.
    (
        re.compile(
            rf"({_CODE_SAID}(?:[ \t]{{1,2}}(?:code|is|was))?[ \t]{{0,2}}:?[ \t]{{1,2}})"
            r"(?:[0-9]{3}[ -][0-9]{3,5}|[0-9]{4,10})\b",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
)

#: An address in a text, up to what comes after its path.
_PATH = re.compile(r"https?://[^\s/?#\"'<>]{1,300}/[^\s?#\"'<>]{1,2000}", re.IGNORECASE)
#: A part of a path that is long and of small and capital letters and digits: a key, and neither an id nor a hash.
_KEY_PART = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])[A-Za-z0-9_-]{16,}")

#: A part of a path that says something and is nobody's key: a lower-case word, or a version.
_PLAIN_PART = re.compile(r"[a-z]{0,12}(?:[-_.][a-z]{1,12}){0,2}|v[0-9]{1,2}")


def shown_url(url: str) -> str:
    """``url`` for evidence: scheme and host, and of its path what can be no key. Never raises.

    Receivers hand out keys as parts of the path, in the query, and before the host.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    path = "/".join(part if _PLAIN_PART.fullmatch(part) else "…" for part in parts.path.split("/"))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def looks_like_key(text: str) -> bool:
    """Whether it is long and of small and capital letters and digits, as keys are that services hand out."""
    return _KEY_PART.fullmatch(text) is not None


def redact_text(text: str) -> str:
    """``text`` with what looks like a credential replaced."""
    for pattern, replacement in _LOOKS_SECRET:
        text = pattern.sub(replacement, text)
    # Most texts hold no such name, and small letters are quick to look through.
    if _NAMES.search(text.lower()):
        for pattern, replacement in _AFTER_A_NAME:
            text = pattern.sub(replacement, text)
    if _CODES.search(text.lower()):
        for pattern, replacement in _GOOD_ONCE:
            text = pattern.sub(replacement, text)
    return _PATH.sub(_without_keys, text)


def redacted_parts(text: str) -> list[str]:
    """What :func:`redact_text` takes out of ``text``, in order."""
    first, *others = redact_text(text).split(REDACTED)
    parts, begin = [], len(first)
    for behind in others:
        # A part is never empty, and what stands behind the last one reaches to the end.
        end = text.find(behind, begin + 1) if behind else len(text)
        parts.append(text[begin:end])
        begin = end + len(behind)
    return parts


def _without_keys(address: re.Match[str]) -> str:
    parts = address[0].split("/")
    return "/".join(REDACTED if _KEY_PART.fullmatch(part.rstrip(".,;:)]}")) else part for part in parts)
