"""Seals by keys in KMS. A person who may read a deployment's settings cannot read these keys."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from lakesweep.errors import AccessDeniedError, StorageError, UsageError

_ALGORITHM = "HMAC_SHA_256"
_INVALID = "KMSInvalidMacException"
_DENIED = ("AccessDeniedException", "AccessDenied")


@dataclass(frozen=True, slots=True)
class KmsKeys:
    """HMAC keys of KMS (`HMAC_256`). The first one seals, and all are accepted."""

    client: Any
    keys: tuple[str, ...]

    def seal(self, digest: bytes) -> str:
        """Return the seal of a document, made with the first key.

        Raises:
            StorageError: KMS did not answer, or refused.
        """
        answer = self._ask("generate_mac", self.keys[0], Message=digest)
        return base64.b64encode(answer["Mac"]).decode()

    def accepts(self, digest: bytes, seal: str) -> bool:
        """Tell whether one of the keys made this seal.

        Raises:
            StorageError: KMS did not answer, or refused.
        """
        try:
            mac = base64.b64decode(seal, validate=True)
        except (binascii.Error, ValueError):
            return False
        return len(mac) == 32 and any(self._is_of(key, digest, mac) for key in self.keys)

    def _is_of(self, key: str, digest: bytes, mac: bytes) -> bool:
        answer = self._ask("verify_mac", key, Message=digest, Mac=mac)
        return answer.get("MacValid") is True

    def _ask(self, operation: str, key: str, **words: Any) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return dict(getattr(self.client, operation)(KeyId=key, MacAlgorithm=_ALGORITHM, **words))
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code == _INVALID:
                return {}
            kind = AccessDeniedError if code in _DENIED else StorageError
            raise kind(f"plan key {key}: {operation} was refused by KMS: {code}; expected an HMAC_256 key") from error
        except BotoCoreError as error:
            raise StorageError(f"plan key {key}: {operation} failed: {error}") from error


def kms_keys(text: str, name: str) -> KmsKeys:
    """Return the keys that a setting names.

    Args:
        text: ARNs, separated by commas.
        name: Name of the setting, for messages.

    Raises:
        UsageError: A word is not the ARN of a key, or the keys are in several regions.
    """
    keys = tuple(word.strip() for word in text.split(",") if word.strip())
    parts = [key.split(":") for key in keys]
    regions = {each[3] for each in parts if len(each) == 6 and each[2] == "kms" and each[5].startswith("key/")}
    if not keys or len(regions) != 1 or any(len(each) != 6 for each in parts):
        raise UsageError(
            f"{name}: expected ARNs of KMS keys in one region, as arn:aws:kms:REGION:ACCOUNT:key/ID, found {text!r}",
            code="bad_plan_key",
        )
    from botocore.session import get_session

    client = get_session().create_client("kms", region_name=regions.pop())
    return KmsKeys(client, keys)
