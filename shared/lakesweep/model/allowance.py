"""Allowance: where outside of tables an operator lets files be deleted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the operator says apart from the fleet policy."""

    roots: tuple[str, ...] = ()
    """Locations that this call allows."""
    bound: tuple[str, ...] | None = None
    """Locations that the deployment allows. Nothing that a call or a policy says leads out of them; `None`: there is no
    deployment."""
