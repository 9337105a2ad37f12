"""Headers of stored plans whose words about parts mean nothing: one sentence each, whoever loads them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.control import plans
from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError
from lakesweep.runs.local_executor import load_files_plan
from tests.support.orphan_scene import OrphanScene
from tests.support.waves import planned, planted

DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a hash that is no number": lambda header: header["parts"][0].update(hash="none"),
    "a hash that is too short": lambda header: header["parts"][0].update(hash="1"),
    "a hash with a sign": lambda header: header["parts"][0].update(hash="-" + header["parts"][0]["hash"][1:]),
    "a negative count": lambda header: header["parts"][0].update(count=-1),
    "a count that is true": lambda header: header["parts"][0].update(count=True),
    "a name in another folder": lambda header: header["parts"][0].update(name="../other/actions-0.ndjson.gz"),
    "a name that ends in another line": lambda header: header["parts"][0].update(name="actions-0.ndjson.gz\n"),
    "a part twice": lambda header: header["parts"].append(header["parts"][0]),
    "a part left out": lambda header: header["parts"].pop(),
    "another field": lambda header: header["parts"][0].update(etag="e"),
    "a field left out": lambda header: header["parts"][0].pop("bytes"),
    "parts that are none": lambda header: header.update(parts={"name": "x"}),
    "kinds that are no numbers": lambda header: header.update(by_kind={"data": "many"}),
    "kinds without a number": lambda header: header.update(by_kind={"data": None}),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("load", [plans.load_plan, load_files_plan])
def test_a_header_that_means_nothing(
    damage: str, load: Callable[[ControlArea, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "PART_ROWS", 300)
    scene = OrphanScene()
    planted(scene, 700)
    plan_id = planned(scene).plan_id
    area = ControlArea(scene.control, scene.store.location)
    name = f"plans/{plan_id}/header.json"
    header = json.loads(area.read(name).data)
    assert len(header["parts"]) == 3
    DAMAGES[damage](header)
    area.put(name, json.dumps(header).encode())
    with pytest.raises(FormatError, match=plan_id):
        load(area, plan_id)
