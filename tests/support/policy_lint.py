"""What parliament, a linter of IAM policies, has to say about a policy."""

import json
from importlib.util import find_spec
from typing import Any

import pytest


def findings_of(document: dict[str, Any]) -> list[Any]:
    """Return what parliament has to say about a policy."""
    if find_spec("parliament") is None:
        pytest.skip("parliament is not installed (extra `deploy`)")
    from parliament import analyze_policy_string

    return list(analyze_policy_string(json.dumps(document)).findings)
