"""How often a signal asked this process to stop. A request that began before the latest stop is not sent again."""

count = 0


def stop() -> None:
    """Note that the process has to stop."""
    global count  # noqa: PLW0603 - signals ask the process, not an object
    count += 1
