"""What is wrong with an encrypted connection to the store, in an operator's words."""

from __future__ import annotations

import ssl
from typing import NamedTuple

#: OpenSSL's numbers of what a certificate fails by: it has expired, and it names another host or address.
_EXPIRED = 10
_ANOTHER_NAME = (62, 64)
#: The other side has gone, as it may without TLS: nothing that its settings could mend.
_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


class TlsTrouble(NamedTuple):
    """What is wrong, as a sentence about the store goes on, and what to do about it."""

    what: str
    remedy: str


def tls_trouble(error: BaseException | None, *, field: str = "REDIS_URL") -> TlsTrouble | None:
    """What of TLS lies behind ``error``; ``None`` when nothing does. ``field`` is what holds the store's address."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return _untrusted(error, field)
        if isinstance(error, ssl.SSLError) and not isinstance(error, _ENDED):
            return _broken(error, field)
        if isinstance(error, TimeoutError) and "handshake" in str(error):
            return _no_tls(field)
        error = error.__cause__ or error.__context__
    return None


def _untrusted(error: ssl.SSLCertVerificationError, field: str) -> TlsTrouble:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _ANOTHER_NAME:
        return TlsTrouble(
            f"its certificate is for another name ({said})", f"Write the name that its certificate gives in {field}."
        )
    if error.verify_code == _EXPIRED:
        return TlsTrouble("its certificate has expired", "Renew it on the store.")
    return TlsTrouble(
        f"its certificate is not trusted ({said})",
        f"Name the authority that signed it in {field}, behind the ?: ssl_ca_certs=/path/to/ca.pem.",
    )


def _no_tls(field: str) -> TlsTrouble:
    return TlsTrouble(
        "it does not answer to TLS",
        f"Write redis://, sentinel:// or cluster:// in {field}, or the port at which it does.",
    )


def _broken(error: ssl.SSLError, field: str) -> TlsTrouble:
    reason = error.reason or ""
    if reason == "WRONG_VERSION_NUMBER":
        return _no_tls(field)
    if "CERTIFICATE_REQUIRED" in reason:
        return TlsTrouble(
            "it asks for a certificate of ours",
            f"Name one in {field}, behind the ?: ssl_certfile=/path/to/cert.pem&ssl_keyfile=/path/to/key.pem.",
        )
    if error.library in ("X509", "PEM"):
        return TlsTrouble(
            "a file named behind the ? is no certificate",
            f"Correct ssl_ca_certs=, ssl_certfile=, ssl_keyfile= in {field}.",
        )
    said = reason.replace("_", " ").lower() or "no reason was given"
    return TlsTrouble(f"TLS failed ({said})", f"Compare its TLS settings with {field}.")
