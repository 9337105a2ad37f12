"""Change the fleet policy: read it, change its text, and write it only if nobody else has changed it meanwhile.

The new text is checked before it is written. If it is written but its answer is lost, the same change is written again
or found done: it is not made twice.
"""

from collections.abc import Callable

from lakesweep.errors import PreconditionFailedError, StorageError
from lakesweep.model.fleet_edit import Edit
from lakesweep.runs.fleet import read_body
from lakesweep.storage.store import Store

TRIES = 8
"""Each failed one was another's change."""


def change_policy(
    store: Store, name: str, location: str, edit: Callable[[bytes], Edit], *, execute: bool
) -> tuple[Edit, bool]:
    """Change the policy document.

    Args:
        store: The folder of the document.
        name: Its key there.
        location: The whole location, for messages.
        edit: Returns the change of a document. It is called again if somebody else has changed the document.
        execute: If false, nothing is written.

    Returns:
        The change, and whether it is written. A change that another call has made already is not.

    Raises:
        UsageError: There is no valid document.
        StorageError: It cannot be read or written, or others changed it again and again.
    """
    tried: Edit | None = None
    for _ in range(TRIES):
        body = read_body(store, name, location)
        found = edit(body.data)
        if found.body == body.data:
            return (found, False) if tried is None else (tried, True)
        if not execute:
            return found, False
        try:
            store.put(name, found.body, if_match=body.etag)
        except PreconditionFailedError:
            tried = found
            continue
        except StorageError as error:
            raise type(error)(
                f"policy {location} may have been changed, or not: {error}; run the same command again",
                code=error.code,
            ) from error
        return found, True
    raise StorageError(
        f"policy {location}: others changed it {TRIES} times in a row; nothing is changed. Run the same command again",
        code="contended",
    )
