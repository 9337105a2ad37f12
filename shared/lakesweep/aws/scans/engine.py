"""Which backend of a deployment runs a scan for orphan files: this function, its workers, or Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.remote import emr_facts
from lakesweep.model.scans import Available, Facts, LocalFacts, OrphanArguments
from lakesweep.operations.orphans.backends import describe_estimate, facts_of
from lakesweep.operations.orphans.rules.backend_choice import choose_backend
from lakesweep.runs.session import Table

HERE, FUNCTIONS, SPARK = "local", "lambda", "spark"
MIB_OF_A_CORE = 1769
"""Lambda gives a function one core for this much memory, and a share of a core for less."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen backend, and the reason."""

    engine: str
    sentence: str
    basis: Mapping[str, object] = field(default_factory=dict)
    """Additional facts for the scan's result."""
    facts: Facts | None = None
    """Facts about the table, if Lakesweep looked at it for the choice."""


def choose_here(
    runtime: Runtime, table: Table, words: Mapping[str, object], arguments: OrphanArguments, context: Context
) -> Chosen:
    """Choose the backend of a scan.

    Args:
        runtime: The function's runtime.
        table: The table.
        words: Arguments of the call: `engine`, and `objects` if given.
        arguments: The arguments of the scan itself.
        context: The context of this invocation.

    Raises:
        StorageError: The first requests to the table failed.
    """
    engine = words.get("engine") or "auto"
    if engine == SPARK and not runtime.queues.has_spark:
        return Chosen(FUNCTIONS, f"{FUNCTIONS}, since this deployment has no Spark", {"engine": FUNCTIONS})
    if engine != "auto":
        return Chosen(str(engine), f"{engine}, as requested", {"engine": engine})
    objects, memory_mib = words.get("objects"), int(context.memory_limit_in_mb)
    facts = facts_of(
        table,
        arguments,
        Available(
            local=LocalFacts(
                memory_mib=memory_mib,
                seconds=context.get_remaining_time_in_millis() / 1000,
                cores=memory_mib / MIB_OF_A_CORE,
                is_lambda=True,
            ),
            has_fan_out=True,
            workers=runtime.settings.scan_workers,
            spark=emr_facts if runtime.queues.has_spark else None,
            objects=objects if isinstance(objects, int) else None,
        ),
    )
    choice = choose_backend(facts)
    return Chosen(
        choice.engine,
        f"{choice.engine}: {choice.reason}; {describe_estimate(choice.estimate)}",
        {"engine": choice.engine, "reason": choice.reason, "estimate": choice.estimate.to_json()},
        facts,
    )
