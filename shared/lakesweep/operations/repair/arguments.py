"""The arguments of the repairs that commit: `remove-unexisting-files` and `remove-unexisting-manifests`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.parameters.parameter import stated


@dataclass(frozen=True, slots=True)
class RepairArguments:
    """The arguments of a repair."""

    catalog: Catalog = field(default_factory=Catalog)
    accept_loss: str | None = None
    """The loss that the caller accepts, by the id that a plan showed; see `Loss.id`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        return {**stated(accept_loss=self.accept_loss, options=self.options), **self.catalog.to_json()}
