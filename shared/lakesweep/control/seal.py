"""Seals of plans: a seal proves that somebody with the key made the plan.

A hash in a plan proves that the plan is complete. But somebody who may write the control location can hash a forged
plan. Where a key is configured, each header carries a seal over its whole content. That includes the table, the
operation, the roots, and the actions or the digests of their parts. A plan without a seal, or with a wrong one, is
refused and deletes nothing.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lakesweep.control.ndjson import compact
from lakesweep.errors import RefusedError, UsageError

UNSEALED_PLAN = "unsealed_plan"
"""Code of a plan without a seal, or with a seal that no configured key made."""
MIN_KEY_BYTES = 32
_CONTEXT = b"lakesweep plan\n"


class Sealer(Protocol):
    """Makes seals, and recognises its own."""

    def seal(self, digest: bytes) -> str:
        """Return the seal of a digest, made with the first key."""

    def accepts(self, digest: bytes, seal: str) -> bool:
        """Tell whether one of the keys made this seal."""


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """HMAC-SHA256 with keys that the caller has. The first key seals; every key is accepted."""

    keys: tuple[bytes, ...] = field(repr=False)

    def seal(self, digest: bytes) -> str:
        """Return the seal of a digest, made with the first key."""
        return _mac(self.keys[0], digest)

    def accepts(self, digest: bytes, seal: str) -> bool:
        """Tell whether one of the keys made this seal."""
        found = seal.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(_mac(key, digest).encode(), found) for key in self.keys)


def keys_of(text: bytes, name: str) -> SecretKeys:
    """Return the keys of a key file: one per line; the first one seals.

    Raises:
        UsageError: The file has no key, or a key is too short to be a secret.
    """
    keys = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not keys or any(len(key) < MIN_KEY_BYTES for key in keys):
        found = f"one of {min(map(len, keys))} bytes" if keys else "no key"
        raise UsageError(
            f"{name}: expected plan keys of {MIN_KEY_BYTES} bytes at least, one a line, found {found}; "
            "`openssl rand -hex 32` makes one",
            code="bad_plan_key",
        )
    return SecretKeys(keys)


def digest_of(document: Mapping[str, object]) -> bytes:
    """Return the digest to seal: of a plan's whole header document except the seal."""
    text = compact({name: value for name, value in document.items() if name != "seal"})
    return hashlib.sha256(_CONTEXT + text.encode("utf-8", "surrogatepass")).digest()


def check_seal(sealer: Sealer | None, document: Mapping[str, object], path: str) -> None:
    """Refuse a plan that was not sealed with one of the keys. Without a configured key, nothing is checked.

    Raises:
        RefusedError: With code `unsealed_plan`.
    """
    if sealer is None:
        return
    seal = document.get("seal")
    if isinstance(seal, str) and sealer.accepts(digest_of(document), seal):
        return
    found = "none" if seal is None else "another seal: the plan was changed, or sealed with another key"
    raise RefusedError(
        f"{path}: expected a plan that is sealed with a configured plan key, found {found}. Nothing of it is carried "
        "out; make a new plan",
        code=UNSEALED_PLAN,
    )


def _mac(key: bytes, digest: bytes) -> str:
    return hmac.new(key, digest, hashlib.sha256).hexdigest()
