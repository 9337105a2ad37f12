"""A table under a fleet policy."""

import json
from collections.abc import Mapping
from typing import Any, Self

from lakesweep.storage.store import Store
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TICK_MS
from tests.support.world import World

STATED = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}
POLICY = "memory://ops/fleet/policy.json"
TABLE = "memory://lake/sales.db/orders"


class RuledWorld(World):
    """A table of ten snapshots, ten minutes apart, the newest just now, under a policy."""

    def __init__(self, options: Mapping[str, str] = STATED) -> None:
        super().__init__(location=TABLE, options=options)
        for _ in range(10):
            self.replace(TICK_MS)
        self.policies = MemoryStore("memory://ops/fleet")

    def maintainer(self, switch: Switch | None = None, **arguments: Any) -> Maintainer:
        return super().maintainer(switch, **{"policy": POLICY, "open_store": self._open, **arguments})

    def _open(self, location: str) -> Store:
        assert location == "memory://ops/fleet"
        return self.policies

    def rules(self, *rules: Mapping[str, object]) -> Self:
        self.policies.put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())
        return self

    def rule(self, **words: object) -> Self:
        return self.rules({"tables": "memory://lake/", **words})
