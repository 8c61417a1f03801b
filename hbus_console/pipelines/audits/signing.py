"""Signatures that others can verify: Ed25519, in the envelope of DSSE (secure-systems-lab/dsse, version 1.0.2).

The key follows from the installation's audit key, so every machine of it signs alike, and nothing more is to be kept
secret. Who has the public key, and it stands beside each signature, as a page and ``/api/v1/audits/key`` tell it, needs
nothing of hbus to verify one.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

from engine.core.errors import BadInput
from hbus_console.audit.chain import key_for

#: What is signed, so that a signature of one thing is none of another.
PAYLOAD_TYPE = "application/vnd.hbus.audit+json"


def public_key() -> str:
    """Of this installation, in hexadecimal: its 32 bytes."""
    return _private().public_key().public_bytes_raw().hex()


def key_id(public: str) -> str:
    """What names it in a signature: the beginning of its SHA-256."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()[:16]


def signed(payload: bytes) -> dict[str, Any]:
    """The envelope around it."""
    public = public_key()
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.standard_b64encode(payload).decode(),
        "signatures": [
            {"keyid": key_id(public), "sig": base64.standard_b64encode(_private().sign(_meant(payload))).decode()}
        ],
    }


def verified(envelope: Any, public: str) -> bytes:
    """What it holds, if ``public`` signed it. Raises :class:`BadInput` saying what is wrong."""
    try:
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(each["sig"], validate=True) for each in envelope["signatures"]]
        kind = envelope["payloadType"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            "It is no envelope of DSSE.", remedy="Give the file as it was exported.", field="file"
        ) from error
    if kind != PAYLOAD_TYPE:
        raise BadInput(f"It holds {kind!r}, and no audit.", remedy="Give an exported audit.", field="file")
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    except ValueError as error:
        raise BadInput("The public key is not 32 bytes in hexadecimal.", remedy="See /audits/.", field="key") from error
    if not any(_fits(key, each, payload) for each in signatures):
        raise BadInput(
            f"The key {key_id(public)} has not signed what it holds.",
            remedy="It was changed, or another installation signed it.",
            field="file",
        )
    return payload


def _fits(key: Ed25519PublicKey, signature: bytes, payload: bytes) -> bool:
    try:
        key.verify(signature, _meant(payload))
    except InvalidSignature:
        return False
    return True


def _meant(payload: bytes) -> bytes:
    """The pre-authentication encoding of DSSE."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _private() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key_for(settings.AUDIT_KEY, "bus audits ed25519")))
