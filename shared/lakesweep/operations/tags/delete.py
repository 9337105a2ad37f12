"""`delete_tag`: delete tags, and the files that only these tags need."""

from lakesweep.model.plan import Plan
from lakesweep.operations.tags.options import check_callbacks
from lakesweep.operations.tags.removal import plan_removal, read_own_tags
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import tag_path
from lakesweep.runs.view import begin, inputs_of

OPERATION = "delete_tag"


def plan_delete_tag(table: Table, names: tuple[str, ...]) -> Plan:
    """Plan the deletion of tags by name. An unknown name is only a warning, as in Paimon.

    Args:
        table: One branch of a table.
        names: The names of the tags.

    Raises:
        RefusedError: This is no table, Paimon would call callbacks when it deletes a tag, or a root cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION)
    options = view.schema.options
    inputs = inputs_of(view.own, {"tag": list(names)})
    there = {ref.name for ref in view.own.tags}
    warnings = [f"there is no tag {name!r} to delete" for name in names if name not in there]
    if there.isdisjoint(names):
        return view.plan((), inputs, warnings=warnings)
    check_callbacks(table, options)
    own = read_own_tags(view)
    warnings += [
        f"{tag_path(view.own.name, name)} cannot be read, so it is kept ({problem}); its files are not known"
        for name, problem in own.unreadable.items()
        if name in names
    ]
    removal = plan_removal(view, own, {name: "deleted manually" for name in names if name in own.roots}, options)
    return view.plan(
        removal.actions,
        inputs,
        kept=removal.kept.count,
        kept_bytes=removal.kept.size_bytes,
        warnings=(*warnings, *removal.warnings),
        needs_confirmation=removal.is_large,
        findings=removal.damage,
    )
