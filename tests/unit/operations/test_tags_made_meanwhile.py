"""A tag with a time to live that is made while a pass, which has listed no tag, is under way."""

from lakesweep.control.state import NEVER_MS, read_states
from tests.support.acting import Acting
from tests.support.world import HOUR_MS, World

KEEP = {"snapshot.num-retained.min": "10", "snapshot.num-retained.max": "100", "snapshot.time-retained": "9000 d"}


def test_the_state_still_says_when_it_is_over() -> None:
    """Somebody makes the tag when a schema is read, which is after the listing."""
    world = World(options=KEEP)

    def tags_due_ms() -> int:
        return read_states(world.area)["main"].tags_due_ms

    world.replace()
    world.maintain(is_due=True)
    assert tags_due_ms() == NEVER_MS
    world.replace()
    elsewhere = world.maintainer()
    other = Acting(
        lambda call: call.startswith("table read schema/"),
        lambda: elsewhere.run("create-tag", tag="short", time_retained="1 h"),
    )
    world.maintain(other, is_due=True)
    assert other.has_acted
    assert tags_due_ms() == world.now_ms + HOUR_MS
    assert world.keys("tag/") == {"tag/tag-short"}
    world.table.remove("tag/tag-short")
    world.now_ms += HOUR_MS
    world.maintain(is_due=True)
    assert tags_due_ms() == NEVER_MS, "nothing is left of it"
