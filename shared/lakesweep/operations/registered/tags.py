"""Run the operations on tags."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.registered.planned import Run, cutoff_ms, planned
from lakesweep.operations.tags import call as tag_call
from lakesweep.operations.tags.automatic import AutoTagArguments
from lakesweep.operations.tags.create import CREATE, REPLACE, plan_create_tag, plan_replace_tag
from lakesweep.operations.tags.delete import plan_delete_tag
from lakesweep.operations.tags.expire import ExpireTagsArguments, plan_expire_tags
from lakesweep.operations.tags.rename import plan_rename_tag
from lakesweep.operations.tags.steps import trigger_tags
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.run import plan_and_write, plan_only
from lakesweep.runs.session import Table


def _of_tags(call: Call) -> ExpireTagsArguments:
    older_than_ms, keep = cutoff_ms(call), tag_call.keep_rules(call)
    if keep and older_than_ms is not None:
        name = given.OLDER_THAN.name if call[given.RETAINED] is None else given.RETAINED.name
        raise UsageError(
            f"{name} applies to all tags, and pattern to some; expected one of the two", code="bad_argument"
        )
    return ExpireTagsArguments(older_than_ms, keep, call[given.TIME_ZONE], call[OPTIONS])


def _create_tag(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = tag_call.to_create(call)
    run = plan_and_write if execute else plan_only  # the write itself finds out whether the name exists
    return run(table, CREATE, lambda target: plan_create_tag(target, arguments, looks_for_name=not execute))


def _replace_tag(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = tag_call.to_create(call)
    run = plan_and_write if execute else plan_only
    return run(table, REPLACE, lambda target: plan_replace_tag(target, arguments))


def _tag_schedule(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = AutoTagArguments(call[given.BACKFILL], call[given.TIME_ZONE], call[OPTIONS])
    return trigger_tags(table, arguments, execute=execute)


RUNS: Mapping[str, Run] = {
    given.CREATE_TAG.name: _create_tag,
    given.REPLACE_TAG.name: _replace_tag,
    given.RENAME_TAG.name: planned(
        given.RENAME_TAG, lambda table, names: plan_rename_tag(table, *names), tag_call.to_rename
    ),
    given.DELETE_TAG.name: planned(given.DELETE_TAG, plan_delete_tag, tag_call.to_delete),
    given.EXPIRE_TAGS.name: planned(given.EXPIRE_TAGS, plan_expire_tags, _of_tags),
    given.TAG_SCHEDULE.name: _tag_schedule,
}
