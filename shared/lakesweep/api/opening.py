"""Open the places that a caller names: table, store, control location. Reads the environment.

The caller of a run is the ARN of the credentials if it can be found quickly, else the user and the machine. Lakesweep
asks once in a process, and only when a run begins. A pass without work does not ask. STS has two seconds to answer. A
store other than S3 of AWS has no STS that knows the caller.
"""

import getpass
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from lakesweep.api.in_job import is_job
from lakesweep.api.place import Place, given
from lakesweep.control.area import ControlArea, area_of, check_apart
from lakesweep.control.month_sums import Meter
from lakesweep.control.noticed import NoticingStore
from lakesweep.control.overviews import ROOT as OVERVIEWS
from lakesweep.control.seal import Sealer, keys_of
from lakesweep.errors import UsageError
from lakesweep.model.paths.stays import Allowance
from lakesweep.model.progress import Progress, no_progress
from lakesweep.model.roots import TableRef, check_whole
from lakesweep.model.who import Who
from lakesweep.runs.allowance import allowing
from lakesweep.runs.bound import EXTERNAL_ROOTS, bound_of
from lakesweep.runs.session import Table, say_nothing
from lakesweep.storage.location import Location, parse_location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

_KEY_FILE = "LAKESWEEP_PLAN_KEY_FILE"
_KEY_IN_KMS = "LAKESWEEP_PLAN_KEY"
_MAX_KEY_BYTES = 65_536


def open_table(
    place: Place,
    counter: RequestCounter | None = None,
    progress: Progress = no_progress,
    say: Callable[[str], None] = say_nothing,
) -> Table:
    """Open a table for one call. This sends no request and creates no folder.

    Args:
        place: Where it is.
        counter: Counts its requests.
        progress: Is told how far the call is.
        say: Takes sentences about the progress.

    Raises:
        UsageError: A location is not valid, or is the location of a branch.
        RefusedError: The control location is inside the table.
    """
    counter = counter or RequestCounter()
    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)

    def opened(location: str) -> Store:
        return open_store(parse_location(location), counter=counter, settings=settings)

    location = parse_location(given(place.table, "TABLE"))
    control = control_location(place, location)
    table = str(location)
    check_whole(table)
    if place.scan_id is not None:
        from lakesweep.model.scans import check_scan_id  # few calls name a scan

        check_scan_id(place.scan_id)
    if control is not None:
        check_apart(control, table)
    store = open_store(location, counter=counter, settings=settings, control=control)
    area = None
    usd_per_second = None if is_job() else 0.0
    if control is not None:
        area = area_of(opened(control), store)
        area = replace(
            area,
            store=NoticingStore(area.store, area.prefix, store),
            sealer=plan_keys(),
            remembers=not os.environ.get("LAKESWEEP_NO_CACHE"),
            who=who_calls(place, table, control),
            meter=Meter(counter, usd_per_second),
        )
    opened_table = Table(
        ref=TableRef(table, place.branch),
        store=store,
        area=area,
        open_store=opened,
        counter=counter,
        progress=progress,
        policy=policy_location(place),
        allowance=Allowance(bound=_deployed_roots()),
        say=say,
        usd_per_second=usd_per_second,
    )
    opened_table = allowing(opened_table, place.external_root or (), "--external-root")
    if place.engine is None:
        return opened_table
    from lakesweep.api.engines import with_backends

    return with_backends(opened_table, place, settings)


def overviews_area(place: Place, folder: str, counter: RequestCounter) -> ControlArea | None:
    """Return where overviews of the tables of a folder are remembered; `None`: nowhere. This sends no request.

    Raises:
        UsageError: The control location is on this machine and the folder in S3, or a plan key is not valid.
    """
    location = parse_location(folder)
    control = control_location(place, location)
    if control is None or os.environ.get("LAKESWEEP_NO_CACHE"):
        return None
    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
    store, tables = (
        open_store(each, counter=counter, settings=settings) for each in (parse_location(control), location)
    )
    return replace(area_of(store, tables, OVERVIEWS), sealer=plan_keys())


def who_calls(place: Place, *locations: str) -> Callable[[], Who]:
    """Return a function that finds out the caller when it is called."""
    is_on_aws = place.endpoint_url is None and any(location.startswith("s3://") for location in locations)

    def who() -> Who:
        return caller(is_on_aws and not _has_endpoint(), place.region)

    return who


@cache
def caller(is_on_aws: bool, region: str | None) -> Who:
    """Return the caller.

    Args:
        is_on_aws: Whether some store is S3 of AWS.
        region: Region to use if the usual configuration names none.
    """
    from lakesweep.storage.aws_identity import caller_arn

    host = socket.gethostname() or "unknown"
    arn = caller_arn(region) if is_on_aws else None
    if arn is not None:
        return Who(arn, host)
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # for example a container without users
        user = "unknown"
    return Who(f"{user}@{host}", host)


def _has_endpoint() -> bool:
    return any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"))


def stated_control(place: Place) -> str | None:
    """Return the control location that the call or the environment states, as stated."""
    return place.control if place.control is not None else os.environ.get("LAKESWEEP_CONTROL") or None


def control_location(place: Place, table: Location) -> str | None:
    """Return the control location; `None` if none is stated and the table is not local.

    Raises:
        UsageError: It is local and the table is in S3, so others could not see the lease.
    """
    stated = stated_control(place)
    if stated is not None:
        control = parse_location(given(stated, "--control"))
        if table.scheme == "s3" and control.scheme == "file" and not place.local_control:
            raise UsageError(
                f"control location {control} is on this machine and table {table} is in S3, so maintainers on other "
                "machines do not see the lease there; expected --control s3://bucket/prefix, which all maintainers of "
                "the table name. If nobody else maintains it, add --local-control",
                code="local_control",
            )
        return str(control)
    if "://" in str(table):
        return None
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    home = state if state.is_absolute() else Path("~/.local/state").expanduser()
    return str(parse_location(str(home / "lakesweep")))


def policy_location(place: Place) -> str | None:
    """Return the location of the fleet policy; `None` if none is stated."""
    if place.policy is not None:
        return given(place.policy, "--policy")
    return os.environ.get("LAKESWEEP_POLICY") or None


def _deployed_roots() -> tuple[str, ...] | None:
    """Return the locations outside of tables where a deployment allows its job to delete."""
    text = os.environ.get(EXTERNAL_ROOTS)
    return None if not text else bound_of(text)


def require_control(table: Table) -> ControlArea:
    """Return the control documents of a table.

    Raises:
        UsageError: No control location is known.
    """
    if table.area is None:
        raise UsageError(
            f"table {table.ref}: its plans and reports are stored in a control location; expected --control or "
            "$LAKESWEEP_CONTROL",
            code="control_missing",
        )
    return table.area


def plan_keys() -> Sealer | None:
    """Return the sealer of plans; `None` if no key is configured.

    Raises:
        UsageError: Both kinds of keys are configured, the file cannot be read, or a key is not valid.
    """
    file, kms = os.environ.get(_KEY_FILE), os.environ.get(_KEY_IN_KMS)
    if file and kms:
        raise UsageError(f"${_KEY_FILE} and ${_KEY_IN_KMS} are both set; expected one of them", code="bad_plan_key")
    if kms:
        from lakesweep.aws.plan_key import kms_keys

        return kms_keys(kms, f"${_KEY_IN_KMS}")
    if not file:
        return None
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as found:
            text = found.read(_MAX_KEY_BYTES + 1) if stat.S_ISREG(os.fstat(found.fileno()).st_mode) else None
    except OSError as error:
        raise UsageError(
            f"${_KEY_FILE}: expected a file with plan keys at {file}: {error.strerror}", code="bad_plan_key"
        ) from error
    if text is None or len(text) > _MAX_KEY_BYTES:
        what = "something else" if text is None else "more"
        raise UsageError(
            f"${_KEY_FILE}: expected a file of {_MAX_KEY_BYTES} bytes at most at {file}, found {what}",
            code="bad_plan_key",
        )
    return keys_of(text, file)
