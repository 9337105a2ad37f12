"""Old versions of tainted files in a bucket of S3."""

import pytest

from lakesweep.model.erasure.places import Place
from lakesweep.operations.erasure.places.look import look
from lakesweep.runs.view import begin
from lakesweep.storage.requests import RequestCounter
from tests.support.erasure_world import ErasureWorld
from tests.support.maintenance import Maintainer
from tests.support.s3_server import fresh_bucket, moto_client, moto_store, versioned_bucket

RULE = {
    "ID": "old",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
}


class Bucket:
    """A table in S3 with two tainted files, of which one was deleted behind its back."""

    def __init__(self, bucket: str) -> None:
        world = ErasureWorld()
        first, second = world.append(1, 7), world.append(2, 7)
        self.gone, self.there = world.files[first].path, world.files[second].path
        self.erased, self.counter = world.search("id = 7"), RequestCounter()
        self.store = moto_store("t", self.counter, bucket)
        for key, body in world.bodies().items():
            self.store.put(key, body)
        moto_client().delete_object(Bucket=bucket, Key=f"t/{self.gone}")

    def look(self) -> list[Place]:
        view = begin(Maintainer(self.store).table, "erase")
        return [place for place in look(view, self.erased) if place.kind in ("noncurrent", "data_file")]


@pytest.mark.parametrize("keeps", [True, False])
def test_old_versions(keeps: bool) -> None:
    """The listing that shows old versions shows the current ones, too."""
    bucket = Bucket(versioned_bucket() if keeps else fresh_bucket())
    found = bucket.look()
    there = [(place.kind, place.paths) for place in found if place.state == "there"]
    old = [("noncurrent", (bucket.gone,))] if keeps else []
    assert there == [("data_file", (bucket.there,)), *old]
    assert [place.kind for place in found if place.state == "gone"] == ([] if keeps else ["noncurrent"])
    lists = bucket.counter.snapshot()["list"]
    begin(Maintainer(bucket.store).table, "erase")
    assert lists - (bucket.counter.snapshot()["list"] - lists) == 2, (
        "the objects, and consumers for the time that snapshots stay"
    )


def test_a_rule_that_deletes_old_versions() -> None:
    name = versioned_bucket()
    moto_client().put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": [RULE]})
    (old,) = (place for place in Bucket(name).look() if place.kind == "noncurrent")
    assert old.until == "until the bucket's lifecycle rule deletes them, 30 days after"
