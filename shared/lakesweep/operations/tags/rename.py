"""`rename-tag`: give a tag another name.

The plan writes the new document before it deletes the old one. So a tag holds the snapshot at every moment.
"""

from lakesweep.errors import RefusedError
from lakesweep.model.document_actions import delete_root, write_document
from lakesweep.model.plan import Plan
from lakesweep.operations.tags.create import exists
from lakesweep.operations.tags.delete import find_tag
from lakesweep.operations.tags.options import check_callbacks
from lakesweep.operations.tags.rules.rollback import changed_warnings
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import PHASE, TAG, check_tag_name, tag_path
from lakesweep.runs.view import begin, inputs_of

OPERATION = "rename-tag"


def plan_rename_tag(table: Table, name: str, target: str) -> Plan:
    """Plan another name for a tag. Its success file keeps the old name, as in Paimon.

    Args:
        table: One branch of a table.
        name: The present name.
        target: The new name.

    Raises:
        RefusedError: The tag does not exist, another tag has the new name, or a tag cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.

    Source: Paimon `TagManager#renameTag`.
    """
    view = begin(table, OPERATION)
    warnings = (*check_tag_name(target, "target_tag"), *changed_warnings(name))
    check_callbacks(table, view.schema.options)
    old = find_tag(view, name)
    if old is None:
        raise RefusedError(f"table {table.ref}: there is no tag {name!r} to rename", code="no_such_tag")
    if find_tag(view, target) is not None:
        raise exists(table, target)
    root = view.own_documents([old])[0]
    actions = (
        write_document(PHASE, TAG, tag_path(view.own.name, target), root.body, f"the new name of tag {name}"),
        delete_root(PHASE, root, f"it is called {target} now"),
    )
    return view.plan(actions, inputs_of(view.own, {"tag": name, "target_tag": target}), warnings=warnings)
