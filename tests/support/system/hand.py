"""Another maintainer beside the functions: somebody with the command line, in this process."""

import boto3

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import MAIN, TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.aws_client import make_client
from lakesweep.storage.location import parse_location
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.store import Store
from tests.support.iam import role_of
from tests.support.stack import REGION
from tests.support.system.deployed import System

HAND = "Hand"


class Hand:
    """Maintains tables of a system by hand, with a function's permissions; the door knows it as `Hand-<number>`."""

    def __init__(self, system: System, number: int = 1, function: str = "Expire") -> None:
        """Sit down."""
        name = f"{HAND}-{number}"
        system.aws.roles[name] = role_of(system.stack, function)
        session = boto3.Session(aws_access_key_id=name, aws_secret_access_key=name, region_name=REGION)
        self._client = make_client(endpoint_url=system.aws.endpoint, region=REGION, session=session)
        self._control = system.stack.environment("Expire")["LAKESWEEP_CONTROL"]

    def run(
        self, location: str, operation: str = "maintain", *, execute: bool = True, **arguments: object
    ) -> RunReport:
        """Run an operation on a table.

        Raises:
            MaintenanceError: As the operation says.
        """
        return run_operation(self.table(location), operation, arguments, execute=execute)

    def table(self, location: str, branch: str = MAIN) -> Table:
        """Return what operations take."""
        control = self._store(self._control)
        return Table(
            ref=TableRef(location, branch),
            store=self._store(location),
            area=ControlArea(control, location),
            open_store=self._store,
            counter=RequestCounter(),
            sleep=lambda _: None,
        )

    def _store(self, location: str) -> Store:
        place = parse_location(location)
        return S3Store(place.bucket, place.path, self._client)
