"""What shows that a table does not exist."""


def parent_of(location: str) -> str | None:
    """Return the folder beside a local table in which something has to lie; `None` for a table in a bucket.

    A bucket that answers has all of its objects. A local folder may be missing since its disk is not mounted.
    """
    if "://" in location:
        return None
    return location.rstrip("/").rpartition("/")[0] or "/"
