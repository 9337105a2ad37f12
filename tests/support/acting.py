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


class Acting(Switch):
    """Lets somebody act once: right before the call with a number, or the first call that `before` knows."""

    def __init__(self, before: int | Callable[[str], bool], act: Callable[[], object]) -> None:
        super().__init__()
        self.has_acted = False
        self._before = before
        self._act = act

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if not self.has_acted and self._is_now(name):
            self.has_acted = True
            self._act()
        return super()._run(name, call)

    def _is_now(self, name: str) -> bool:
        return len(self.calls) + 1 == self._before if isinstance(self._before, int) else self._before(name)
