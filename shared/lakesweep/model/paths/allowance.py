"""Allowance: where an operator allows Lakesweep to delete files outside of tables."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """The operator's settings apart from the fleet policy."""

    roots: tuple[str, ...] = ()
    """Locations that this call allows."""
    bound: tuple[str, ...] | None = None
    """Locations that the deployment allows. Neither a call nor a policy can allow more; `None`: there is no
    deployment."""
