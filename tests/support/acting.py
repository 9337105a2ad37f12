"""Somebody who acts right before a storage call of a run."""

from collections.abc import Callable, Mapping

from tests.support.faulty_store import Switch


class Plays(Switch):
    """Lets others act right before some calls."""

    def __init__(self, acts: Mapping[int, Callable[[], object]]) -> None:
        super().__init__()
        self._acts = acts

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self._acts.get(len(self.calls) + 1, lambda: None)()
        return super()._run(name, call)


class Acting(Plays):
    """Lets somebody act right before one call."""

    def __init__(self, before: int, act: Callable[[], object]) -> None:
        super().__init__({before: act})
