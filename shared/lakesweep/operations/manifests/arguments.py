"""The arguments of `compact-manifest`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.runs.committing.catalog import Catalog


@dataclass(frozen=True, slots=True)
class CompactManifestArguments:
    """The arguments of `compact-manifest`. Source: Paimon `CompactManifestProcedure`."""

    catalog: Catalog = field(default_factory=Catalog)
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""
    unattended: bool = False
    """No person watches. A plan then reads no manifest, so it does not say what comes out, and a table that does not
    allow the commit is refused."""
    only_due: bool = False
    """Do nothing unless the base list is too long, as in a pass."""
    otherwise: Mapping[str, str] = field(default_factory=dict)
    """`manifests` of the fleet policy: table options that say when a list is too long, each for schemas without it."""
