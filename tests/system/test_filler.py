"""A bucket with filler is listed, read and deleted as the same bucket without."""

import random
from collections.abc import Iterator

import pytest

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.store import DeleteRequest, Store
from tests.support.stack import REGION
from tests.support.system.backdoor import Backdoor
from tests.support.system.clock import ManualClock
from tests.support.system.embedded_aws import EmbeddedAws
from tests.support.system.filler import Filler

LETTERS = ("a", "b", "/", "=", " ", "+", "%", "ü", "&", "<", "\U0001f600")
OBJECTS = 2300


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws(ManualClock()) as running:
        yield running


def two_buckets(aws: EmbeddedAws, seed: int) -> tuple[Store, Store]:
    """Write the same objects twice: in one bucket all of them are moto's, in the other most are filler."""
    chance = random.Random(seed)
    keys = {"t/" + "".join(chance.choices(LETTERS, k=chance.randint(1, 9))).strip("/") + "x" for _ in range(OBJECTS)}
    keys = {key for key in keys if "//" not in key}
    names = f"plain-{seed}", f"filled-{seed}"
    filler = Filler(aws.clock.now(), 7)
    with aws.alone() as s3:
        for name in names:
            s3.create_bucket(name, REGION)
    filler.add(key for key in keys if chance.random() < 0.8)
    for name, kept in ((names[0], keys), (names[1], keys - set(filler.keys()))):
        outside = Backdoor(aws, name, "")
        for key in kept:
            outside.put(key, filler.body)
    aws.fillers[names[1]] = filler
    settings = StoreSettings(endpoint_url=aws.endpoint, region=REGION)
    plain, filled = (open_store(f"s3://{name}/t", settings=settings) for name in names)
    return plain, filled


@pytest.mark.parametrize("seed", [1, 2])
def test_a_bucket_is_the_same_with_filler(seed: int, aws: EmbeddedAws) -> None:
    plain, filled = two_buckets(aws, seed)
    found = list(plain.list(""))
    assert list(filled.list("")) == found and len(found) > 1500
    for prefix in ("a/", "b=/", "none/"):
        assert list(filled.list(prefix)) == list(plain.list(prefix))
    middle, later = found[len(found) // 3].key, found[len(found) // 2].key
    assert list(filled.list_range("", middle, later)) == list(plain.list_range("", middle, later))
    assert list(filled.folders("")) == list(plain.folders(""))
    chance = random.Random(seed)
    for key in (each.key for each in chance.sample(found, 5)):
        assert filled.read(key) == plain.read(key)
    going = [DeleteRequest(each.key) for each in chance.sample(found, 800)]
    assert {each.code for each in filled.delete(going)} == {"deleted"}
    plain.delete(going)
    assert list(filled.list("")) == list(plain.list(""))
    with pytest.raises(ObjectNotFoundError):
        filled.read(going[0].key)
