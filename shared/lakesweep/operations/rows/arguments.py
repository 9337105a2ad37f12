"""The arguments of `delete-rows`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.parameters.parameter import stated


@dataclass(frozen=True, slots=True)
class DeleteRowsArguments:
    """The arguments of `delete-rows`. `repr` does not show the condition: it may say what is to be forgotten."""

    where: str = field(repr=False)
    """The condition, in Spark's SQL; see `parse_where`. A row for which it is null stays."""
    zone: str | None = None
    """The zone of times that are written without one; `None`: the zone that the fleet policy declares."""
    catalog: Catalog = field(default_factory=Catalog)
    confirm: bool = False
    """The caller knows that the condition is true for every row."""
    show_rows: bool = False
    """A dry run shows a few of the rows. They are not stored."""
    keep_condition: bool = False
    """The report keeps the text of the condition, with its values."""
    fallback_reappears: bool = False
    """The caller knows that a fallback branch shows its copy of a partition that loses all rows."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given, without the condition."""
        return {
            **stated(
                time_zone=self.zone,
                confirm=self.confirm,
                keep_condition=self.keep_condition,
                fallback_reappears=self.fallback_reappears,
                options=self.options,
            ),
            **self.catalog.to_json(),
        }
