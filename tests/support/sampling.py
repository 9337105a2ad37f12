"""Which cases of a test that tries very many a run takes.

`make test` takes some of each test, the same ones in every run. `make test-all` takes all of them, and so does pytest
without `make`.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.mutations.mutations import MUTATIONS

VARIABLE = "LAKESWEEP_SAMPLED"
"""Says that a run takes a sample; see `make test`."""
TESTS = Path(__file__).resolve().parent.parent
CASES: Mapping[str, int] = {
    "attack": 2,
    "bad_bytes": 2,
    "conformance": 2,
    "deploy": 4,
    "differential": 3,
    "e2e": 3,
    "fault": 1,
    "functions": 2,
    "spark": 1,
    "system": 2,
    "unit": 3,
}
"""Folder below `tests/` -> how many cases of one test are taken there."""
FEWER: Mapping[str, int] = {
    "tests/attack/test_three_maintainers.py::test_every_root_reads_after_them": 1,
    "tests/bad_bytes/test_damage.py::test_damage": 1,
    "tests/differential/test_as_latest_histories.py::test_the_engine_goes_on_after_rollbacks_as_latest": 1,
    "tests/differential/test_commit_histories.py::test_the_engine_goes_on_after_our_commits": 1,
    "tests/unit/operations/test_undo_tags.py::test_an_undo_may_break_at_any_call": 1,
    "tests/unit/operations/test_unsafe_cases.py::test_a_rollback_at_every_step_of_an_expiry": 1,
    "tests/differential/test_erased_places.py::test_random_tables": 1,
    "tests/differential/test_expire_snapshots.py::test_the_same_files_survive": 2,
    "tests/attack/test_suspended_runs.py::test_a_local_run_that_wakes_changes_nothing": 1,
    "tests/attack/test_suspended_runs.py::test_an_expiry_that_wakes_deletes_nothing": 1,
    "tests/attack/test_memory.py::test_bombs_in_inventories_of_parquet": 1,
    "tests/conformance/test_store.py::test_everything_is_listed_in_parallel": 1,
    "tests/conformance/test_store.py::test_folders_among_never_names_too_few": 1,
    "tests/conformance/test_store.py::test_list_goes_over_many_pages": 1,
    "tests/conformance/test_store.py::test_ranges_that_meet_make_the_whole": 1,
    "tests/deploy/test_template.py::test_linters_find_nothing": 1,
    "tests/differential/test_branches.py::test_the_same_branches_survive": 1,
    "tests/differential/test_commit_histories.py::test_files_that_wait_for_their_bucket": 1,
    "tests/differential/test_compact.py::test_histories": 1,
    "tests/differential/test_compact.py::test_others_go_on": 1,
    "tests/differential/test_compact.py::test_the_engine_commits_meanwhile": 1,
    "tests/differential/test_compact_statistics.py::test_entries_are_those_of_the_engine": 2,
    "tests/differential/test_compact_statistics.py::test_filters": 1,
    "tests/differential/test_compacted_writers.py::test_another_commits_meanwhile": 1,
    "tests/differential/test_rewritten_rows.py::test_histories": 1,
    "tests/differential/test_rewritten_rows.py::test_the_engine_commits_meanwhile": 1,
    "tests/differential/test_dangling_vectors.py::test_a_full_compaction_of_the_engine": 1,
    "tests/differential/test_dangling_vectors.py::test_an_index_file_that_also_has_live_vectors": 1,
    "tests/differential/test_dangling_vectors.py::test_an_overwrite_by_pypaimon": 1,
    "tests/differential/test_dangling_vectors.py::test_random_tables": 1,
    "tests/differential/test_deleted_entries.py::test_of_pypaimon": 1,
    "tests/differential/test_deleted_entries.py::test_of_the_engine": 1,
    "tests/differential/test_delete_rows.py::test_harm_is_noticed": 1,
    "tests/differential/test_delete_rows.py::test_histories": 1,
    "tests/differential/test_delete_rows.py::test_times_of_a_zone": 1,
    "tests/differential/test_delete_rows_conflicts.py::test_a_compaction_that_began_before": 1,
    "tests/differential/test_delete_rows_conflicts.py::test_a_delete_of_the_engine_that_began_before": 1,
    "tests/differential/test_delete_rows_conflicts.py::test_the_engine_commits_meanwhile": 1,
    "tests/differential/test_delete_rows_conflicts.py::test_two_first_vectors_of_a_file": 1,
    "tests/differential/test_repairs.py::test_a_data_file": 1,
    "tests/differential/test_repairs.py::test_a_manifest": 1,
    "tests/differential/test_repairs.py::test_hints": 1,
    "tests/differential/test_keyed_checks.py::test_harm_is_noticed": 8,
    "tests/differential/test_keyed_compact.py::test_keys_of_each_type": 2,
    "tests/differential/test_keyed_compact.py::test_entries_are_those_of_the_engine": 2,
    "tests/differential/test_keyed_compact.py::test_deletes_that_are_ignored_later": 1,
    "tests/differential/test_keyed_histories.py::test_histories": 2,
    "tests/differential/test_keyed_histories.py::test_the_engine_compacts": 1,
    "tests/differential/test_keyed_races.py::test_a_compaction_of_the_engine_that_began_before": 1,
    "tests/differential/test_keyed_races.py::test_others_commit_meanwhile": 2,
    "tests/differential/test_manifest_histories.py::test_the_engine_goes_on_after_our_compaction": 1,
    "tests/differential/test_tags.py::test_the_same_tags_survive": 1,
    "tests/differential/test_tags.py::test_harm_is_noticed": 2,
    "tests/differential/test_typed_reads.py::test_histories": 1,
    "tests/differential/test_wrong_statistics.py::test_each_wrong_statistic_is_noticed": 1,
    "tests/differential/test_comparison.py::test_the_engine_agrees_with_itself": 1,
    "tests/differential/test_repairs.py::test_a_writer_commits_meanwhile": 1,
    "tests/unit/operations/test_undo.py::test_maintenance_after_a_broken_undo": 1,
    "tests/unit/format/test_orc_process.py::test_bombs": 1,
    "tests/e2e/test_requests.py::test_expire_50_of_100_snapshots_with_20_dead_files_each": 1,
    "tests/system/test_alarms.py::test_what_goes_wrong_sets_off_its_alarms_and_no_other": 2,
    "tests/system/test_chaos.py::test_what_is_wrong_in_the_end_is_noticed": 1,
    "tests/system/test_no_loops.py::test_a_chain_that_would_go_on_for_ever_ends_by_its_own_counter": 1,
    "tests/system/test_orphan_scans.py::test_each_task_message": 1,
    "tests/system/test_orphan_scans.py::test_each_turn": 1,
    "tests/unit/execute/test_large_plans.py::test_any_request_may_be_the_last": 1,
    "tests/unit/format/test_manifest.py::test_every_flip_is_noticed_or_decodes": 2,
    "tests/unit/format/test_orc.py::test_damage": 1,
    "tests/unit/operations/simulation/test_damage.py::test_damaged_documents": 2,
    "tests/unit/operations/simulation/test_damage.py::test_missing_metadata": 2,
    "tests/unit/operations/simulation/test_foretold.py::test_the_bytes_are_there_after_the_expiry": 20,
    "tests/unit/operations/simulation/test_foretold.py::test_the_present_policy_deletes_what_an_expiry_plans_now": 20,
    "tests/unit/operations/simulation/test_history.py::test_the_planner_would_have_expired_as_many": 50,
    "tests/unit/operations/test_undo.py::test_any_call_may_break": 1,
    "tests/unit/reading/test_formats.py::test_damaged_orc": 1,
    "tests/unit/fan_out/test_equal_random.py::test_engines_agree_on_random_tables": 1,
    "tests/unit/fan_out/test_scans_in_memory.py::test_a_plan_of_much_of_the_table_asks_first": 1,
    "tests/unit/test_mutations.py::test_a_mutation_changes_one_place_of_code_that_still_parses": 1000,
}
"""How many cases are taken of tests that take very long, or hardly any time."""
_NOTICING = frozenset(f"tests/{each.test}" for each in MUTATIONS)
"""They show that a rule of the safety code still has a test, so each is taken."""


def is_sampled() -> bool:
    """Tell whether this run takes a sample."""
    return bool(os.environ.get(VARIABLE))


def seeds(count: int, sampled: int) -> range:
    """Return the seeds that one test tries in turn: `count` of them, or the first ones where a run takes a sample."""
    return range(sampled if is_sampled() else count)


def examples(count: int) -> int:
    """Return how many examples a property is tried with: `count`, or a quarter of them where a run takes a sample."""
    return -(-count // 4) if is_sampled() else count


def chosen(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return what is run of the tests that were found, in their order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    taken = {item.nodeid for test, found in cases.items() for item in _some(test, found)}
    return [item for item in items if item.nodeid in taken]


def _some(test: str, cases: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    most = FEWER.get(test) or CASES.get(test.split("/")[1], len(cases))
    in_order = sorted(cases, key=lambda item: (item.nodeid not in _NOTICING, zlib.crc32(item.nodeid.encode())))
    return in_order[: max(most, sum(item.nodeid in _NOTICING for item in cases))]
