"""The settings of a deployment, from the environment of a function."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import UsageError
from lakesweep.model.safety import MAX_MIN_INTERVAL_MS, MIN_ORPHAN_INTERVAL_MS
from lakesweep.runs.bound import EXTERNAL_ROOTS, bound_of
from lakesweep.runs.parameters.times import parse_span_ms
from lakesweep.storage.location import Location, parse_location

if TYPE_CHECKING:
    from lakesweep.aws.emr import EmrSettings

DEFAULT_MIN_INTERVAL = "1 min"
DEFAULT_ORPHAN_INTERVAL = "7 d"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a deployment allows its functions, and where they find each other."""

    tables: tuple[Location, ...]
    """Tables are here or below. Lakesweep touches no other table."""
    control: str
    """The control location of all these tables."""
    may_delete: bool
    """Whether the mode is `delete`; otherwise every table is only observed."""
    policy: str | None
    """Location of the fleet policy, if there is one."""
    accounts: frozenset[str]
    """Accounts whose events are accepted; empty: any account."""
    min_interval_ms: int
    """Minimum time between two passes over a branch."""
    queues: Mapping[str, str]
    """Name -> URL of the queues that the function may use: `commits`, `expire`, `execute`, `sweep`, `tags`, `spark`,
    `scan`, `orphan`, `committer`."""
    orphan_interval_ms: int = 7 * 86_400_000
    """Time between the beginnings of two scheduled scans of a table for orphan files."""
    external_roots: tuple[str, ...] = ()
    """Outside the tables' directories, Lakesweep may delete files of tables only below these locations."""
    scan_workers: int = 10
    """Tasks of scans that run at the same time."""
    plan_key: str | None = None
    """ARNs of the KMS keys that seal plans."""
    no_cache: bool = False
    """Do not use the metadata cache of earlier runs, and do not write it."""
    emr: "EmrSettings | None" = None
    """Settings for the function that starts jobs."""

    def allows(self, location: str) -> bool:
        """Tell whether a table at `location` belongs to the deployment."""
        try:
            place = parse_location(location)
        except UsageError:
            return False
        return any(root.contains(place) and (root.path or place.path) for root in self.tables)


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Args:
        environment: Used instead of the process's environment.

    Raises:
        UsageError: A setting is missing or not valid. The function must not guess.
    """
    environment = os.environ if environment is None else environment
    tables = tuple(_bucket_place(text) for text in _words(environment, "LAKESWEEP_TABLES"))
    if not tables:
        raise UsageError("LAKESWEEP_TABLES: expected bucket/prefix of the tables, found nothing", code="bad_setting")
    control = str(_place(environment.get("LAKESWEEP_CONTROL", ""), "LAKESWEEP_CONTROL"))
    mode = environment.get("LAKESWEEP_MODE", "observe")
    if mode not in ("observe", "delete"):
        raise UsageError(f"LAKESWEEP_MODE: expected observe or delete, found {mode!r}", code="bad_setting")
    interval = environment.get("LAKESWEEP_MIN_INTERVAL") or DEFAULT_MIN_INTERVAL
    min_interval_ms = parse_span_ms(interval, "LAKESWEEP_MIN_INTERVAL")
    if min_interval_ms > MAX_MIN_INTERVAL_MS:
        raise UsageError(f"LAKESWEEP_MIN_INTERVAL: expected 3 h at most, found {interval!r}", code="bad_setting")
    orphans = environment.get("LAKESWEEP_ORPHAN_INTERVAL") or DEFAULT_ORPHAN_INTERVAL
    orphan_interval_ms = parse_span_ms(orphans, "LAKESWEEP_ORPHAN_INTERVAL")
    if orphan_interval_ms < MIN_ORPHAN_INTERVAL_MS:
        raise UsageError(f"LAKESWEEP_ORPHAN_INTERVAL: expected 1 d at least, found {orphans!r}", code="bad_setting")
    queues = {name: environment.get(f"LAKESWEEP_{name.upper()}_QUEUE", "") for name in _QUEUES}
    return Settings(
        tables=tables,
        control=control,
        may_delete=mode == "delete",
        policy=environment.get("LAKESWEEP_POLICY") or None,
        accounts=frozenset(_words(environment, "LAKESWEEP_ACCOUNTS")),
        min_interval_ms=min_interval_ms,
        queues={name: url for name, url in queues.items() if url},
        orphan_interval_ms=orphan_interval_ms,
        external_roots=_external_roots(environment),
        scan_workers=_workers(environment.get("LAKESWEEP_SCAN_WORKERS") or "10"),
        plan_key=environment.get("LAKESWEEP_PLAN_KEY") or None,
        no_cache=bool(environment.get("LAKESWEEP_NO_CACHE")),
        emr=_emr(environment, control) if environment.get("LAKESWEEP_SPARK_APPLICATION") else None,
    )


_QUEUES = ("commits", "expire", "execute", "sweep", "tags", "spark", "scan", "orphan", "committer")


def _emr(environment: Mapping[str, str], control: str) -> "EmrSettings":
    from lakesweep.aws.emr import EmrSettings  # few deployments have Spark

    def stated(name: str) -> str:
        value = environment.get(name, "")
        if not value:
            raise UsageError(
                f"{name}: expected a value, since there is a Spark application; found none", code="bad_setting"
            )
        return value

    return EmrSettings(
        application_id=stated("LAKESWEEP_SPARK_APPLICATION"),
        planner_role_arn=stated("LAKESWEEP_SPARK_PLANNER_ROLE"),
        executor_role_arn=stated("LAKESWEEP_SPARK_EXECUTOR_ROLE"),
        committer_role_arn=stated("LAKESWEEP_SPARK_COMMITTER_ROLE"),
        artifacts=str(_place(stated("LAKESWEEP_SPARK_ARTIFACTS"), "LAKESWEEP_SPARK_ARTIFACTS")),
        python=stated("LAKESWEEP_SPARK_PYTHON"),
        control=control,
        region=stated("AWS_REGION"),
        policy=environment.get("LAKESWEEP_POLICY") or None,
        external_roots=_external_roots(environment),
        plan_key=environment.get("LAKESWEEP_PLAN_KEY") or None,
        log_group=environment.get("LAKESWEEP_SPARK_LOG_GROUP") or None,
    )


def _external_roots(environment: Mapping[str, str]) -> tuple[str, ...]:
    roots = bound_of(environment.get(EXTERNAL_ROOTS, ""))
    return tuple(str(_place(root, EXTERNAL_ROOTS)) for root in roots)


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= 1000):
        raise UsageError(
            f"LAKESWEEP_SCAN_WORKERS: expected a number from 1 to 1000, found {text!r}", code="bad_setting"
        )
    return int(text)


def _words(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in environment.get(name, "").split(",") if word.strip())


def _bucket_place(text: str) -> Location:
    return _place(text if "://" in text else f"s3://{text}", "LAKESWEEP_TABLES")


def _place(text: str, name: str) -> Location:
    try:
        place = parse_location(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}", code="bad_setting") from error
    if place.scheme != "s3":
        raise UsageError(f"{name}: expected a place in S3, found {text!r}", code="bad_setting")
    return place
