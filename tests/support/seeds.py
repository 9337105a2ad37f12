"""The seed of the first of many random tables, histories or schedules: stated in the environment, or drawn there."""

import os
import random

VARIABLES = ("LAKESWEEP_DIFFERENTIAL_SEED", "LAKESWEEP_SCHEDULE_SEED")


def draw_seeds() -> None:
    """Put a number where the environment says `random`, before there are processes that would each draw their own."""
    for name in VARIABLES:
        if os.environ.get(name) == "random":
            os.environ[name] = str(random.randrange(10**9))


def first_seed(name: str, default: int = 20260101) -> int:
    """Return the seed that a variable states."""
    return int(os.environ.get(name) or default)
