"""Run the operations that expire snapshots, changelogs and consumers."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.operations.registered.planned import Run, cutoff_ms, planned
from lakesweep.operations.retention.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.retention.expire_consumers import ConsumerArguments, plan_clear_consumers, plan_reset_consumer
from lakesweep.operations.retention.expire_snapshots import plan_expire_snapshots
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.parameters.retention_options import ExpireArguments


def _limits(call: Call) -> ExpireArguments:
    return ExpireArguments(
        retain_max=call[given.RETAIN_MAX],
        retain_min=call[given.RETAIN_MIN],
        older_than_ms=cutoff_ms(call),
        max_deletes=call[given.MAX_DELETES],
        protect_commit_users=call[given.PROTECT_COMMIT_USER],
        options=call[OPTIONS],
    )


def _of_changelogs(call: Call) -> ExpireChangelogsArguments:
    arguments = ExpireChangelogsArguments(limits=_limits(call), delete_all=call[given.DELETE_ALL])
    if arguments.delete_all and arguments.limits.overrides_table:
        raise UsageError(
            "delete_all deletes every changelog; expected it without a number to retain, a time or a limit",
            code="bad_argument",
        )
    return arguments


RUNS: Mapping[str, Run] = {
    given.EXPIRE_SNAPSHOTS.name: planned(given.EXPIRE_SNAPSHOTS, plan_expire_snapshots, _limits),
    given.EXPIRE_CHANGELOGS.name: planned(given.EXPIRE_CHANGELOGS, plan_expire_changelogs, _of_changelogs),
    given.CLEAR_CONSUMERS.name: planned(
        given.CLEAR_CONSUMERS,
        plan_clear_consumers,
        lambda call: ConsumerArguments(including=call[given.INCLUDING], excluding=call[given.EXCLUDING]),
    ),
    given.RESET_CONSUMER.name: planned(
        given.RESET_CONSUMER,
        plan_reset_consumer,
        lambda call: ConsumerArguments(call[given.CONSUMER_ID], call[given.NEXT_SNAPSHOT]),
    ),
}
