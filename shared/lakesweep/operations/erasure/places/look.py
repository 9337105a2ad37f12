"""Look where the values of erased rows can still be. This needs no condition, only the files that had the rows.

A place is *there* if something in it certainly has such values, *gone* if nothing in it has any, and *unknown*
otherwise. A failed read is never an answer: the place becomes unknown, and says why.

Rows that others copy after the search are in files that nobody has searched. The roots of these are unknown, as far as
`copies` can tell; only a new search finds the rows.
"""

from collections.abc import Collection

from lakesweep.model.erasure.places import ErasedFiles, Place
from lakesweep.operations.erasure.places.files import file_places
from lakesweep.operations.erasure.places.held import held_by_roots
from lakesweep.operations.erasure.places.listed import listed_objects
from lakesweep.operations.erasure.places.metadata import metadata_places
from lakesweep.operations.erasure.places.outside import outside_places
from lakesweep.operations.erasure.places.roots import root_places
from lakesweep.operations.erasure.places.scene import Scene
from lakesweep.runs.view import TableView


def look(
    view: TableView,
    erased: ErasedFiles,
    *,
    erased_ms: int | None = None,
    erased_id: int = 0,
    clean_ms: int | None = None,
    keys: Collection[str] = (),
) -> tuple[Place, ...]:
    """Return every place where values of erased rows can be, and for each kind of place that they are gone from it.

    Args:
        view: The table, with all of its roots.
        erased: The files that had the rows.
        erased_ms: When the rows left the newest version, by the store's clock; `None`: not yet.
        erased_id: The snapshot of the view's branch with which they left it.
        clean_ms: When a look first saw no other place than old versions of the cache; `None`: never.
        keys: The partition keys that the condition names: the names of partitions are then such values, too.

    Raises:
        StorageError: A document of the table could not be read, and was neither absent nor damaged.
    """
    held = held_by_roots(view, erased)
    listed = listed_objects(view, erased, held, erased_ms, keys)  # later than the roots: what came since is no root's
    scene = Scene(view, erased, erased_ms, erased_id, clean_ms, keys, held, listed)
    return (*root_places(scene), *file_places(scene), *metadata_places(scene), *outside_places(scene))
