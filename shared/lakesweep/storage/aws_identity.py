"""The identity of a process's credentials, according to AWS's STS."""

from lakesweep.storage.aws_client import new_session

_TIMEOUT_S = 1


def caller_arn(region: str | None) -> str | None:
    """Return the ARN of the credentials, `None` if there is no answer within two seconds. Never raises."""
    try:
        from botocore.config import Config

        config = Config(
            connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S, retries={"mode": "standard", "total_max_attempts": 1}
        )
        session = new_session()
        if session.get_credentials() is None:
            return None
        client = session.create_client(
            "sts", region_name=region or session.get_config_variable("region"), config=config
        )
        arn = client.get_caller_identity().get("Arn")
    except Exception:  # noqa: BLE001 - whatever the error, the run continues
        return None
    return arn if isinstance(arn, str) else None
