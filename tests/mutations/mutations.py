"""The list: one change to one line of safety code each, and a test that fails with it.

A suite that is made faster could lose its teeth without a word. So each rule that stands between a plan and a lost file
is broken here once, and `make mutations` shows that a test of `make test` notices.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change, and the test that notices it."""

    name: str
    """What is broken, as a sentence about the broken program."""
    module: str
    """Below `shared/lakesweep`, without `.py`."""
    before: str
    """What stands there, once."""
    after: str
    """What stands there instead."""
    test: str
    """A test that fails then; a path below `tests/`, with its name."""


MUTATIONS = (
    # --- which snapshots expire ---
    Mutation(
        "retain_min keeps one snapshot less",
        "operations/retention/rules/snapshot_range",
        "latest - policy.retain_min + 1, first",
        "latest - policy.retain_min + 2, first",
        "unit/operations/retention/rules/test_due.py::test_snapshots_are_due_that_the_planner_chooses",
    ),
    Mutation(
        "a consumer's next snapshot does not bound the range",
        "operations/retention/rules/snapshot_range",
        "        ends.append(consumer_next)\n",
        "        ends.append(consumer_next + 1)\n",
        "unit/operations/retention/rules/test_snapshot_range.py::test_the_range[a-consumer-keeps-what-it-has-not-read]",
    ),
    Mutation(
        "a snapshot expires at the cutoff itself",
        "operations/retention/rules/snapshot_range",
        "if max(time_ms[snapshot_id], time_ms[successor]) >= cutoff_ms:",
        "if max(time_ms[snapshot_id], time_ms[successor]) > cutoff_ms:",
        "unit/operations/retention/rules/test_due.py::test_snapshots_are_due_that_the_planner_chooses",
    ),
    Mutation(
        "a young snapshot does not shield the next ones",
        "operations/retention/rules/snapshot_range",
        "if max(time_ms[snapshot_id], time_ms[successor]) >= cutoff_ms:",
        "if min(time_ms[snapshot_id], time_ms[successor]) >= cutoff_ms:",
        "unit/operations/retention/rules/test_due.py::test_snapshots_are_due_that_the_planner_chooses",
    ),
    # --- what the fleet policy says ---
    Mutation(
        "a rule for one table lifts the pause of its folder",
        "model/policy",
        "        return replace(outer, tables=self.tables,",
        "        return replace(outer, pause=self.pause, tables=self.tables,",
        "unit/operations/test_fleet.py::test_the_pause_of_a_folder_stops_tables_with_a_rule_of_their_own",
    ),
    Mutation(
        "a rule for one table drops the minimum of its folder",
        "model/policy",
        "deciders={**outer.deciders, **self.deciders}, **own)",
        "deciders=self.deciders, **own)",
        "unit/operations/test_fleet.py::test_a_rule_of_one_table_drops_nothing_of_its_folder",
    ),
    Mutation(
        "a pause does not stop a deletion of many minutes",
        "execute/deletions/executor",
        "        self._env.check_policy()\n",
        "",
        "unit/execute/test_large_plans.py::test_a_pause_stops_a_deletion_in_one_process_when_it_rests",
    ),
    # --- which tags expire ---
    Mutation(
        "a tag that a calendar rule keeps expires by its age",
        "operations/tags/rules/expiry",
        "        if reasons:\n",
        "        if reasons and older_than_ms is None:\n",
        "unit/operations/tags/rules/test_expiry.py::test_a_calendar_rule_is_stronger_than_a_date",
    ),
    # --- freed: what an expiry may delete ---
    Mutation(
        "a root needs the files that it deleted, and not those that it has",
        "table/reach/references",
        "live = [entry for entry in added if entry.identity not in gone]",
        "live = [entry for entry in added if entry.identity in gone]",
        "unit/operations/test_unsafe_cases.py::test_files_of_a_replaced_tag_stay_as_garbage",
    ),
    Mutation(
        "changes that can still be read are freed with their snapshot",
        "table/reach/freed",
        "if keep_appended and entry.file_source != COMPACT:",
        "if keep_appended and entry.file_source == COMPACT:",
        "unit/operations/test_changelogs.py::test_snapshot_expiry_moves_documents[none]",
    ),
    # --- referenced: what roots need ---
    Mutation(
        "an unreadable manifest hides no data files",
        "table/reach/references",
        'self._hidden(root, content, "data", "extra", "changelog")\n                continue',
        "continue",
        "unit/operations/test_unsafe_cases.py::test_truncated_and_missing_metadata_keep_what_a_root_may_need[tag/tag-t-manifest-cut]",
    ),
    Mutation(
        "an unreadable index manifest hides no index files",
        "table/reach/references",
        '                    self._hidden(root, content, "index")\n',
        "                    pass\n",
        "unit/operations/test_unsafe_cases.py::test_an_index_manifest_that_cannot_be_read_keeps_index_files[cut]",
    ),
    Mutation(
        "statistics of roots that stay are not asked for",
        "table/reach/references",
        "named += [snapshot.index_manifest, snapshot.statistics]",
        "named += [snapshot.index_manifest]",
        "unit/operations/test_unsafe_cases.py::test_many_rollbacks[before-1]",
    ),
    Mutation(
        "changelog files of roots that stay are not asked for",
        "table/reach/references",
        '        if root.ref.kind != "tag":\n            live += self._changelog_entries(files, found)\n',
        "",
        "unit/operations/test_changelogs.py::test_a_branch_keeps_its_own_changelogs_and_protects_the_other_side[input]",
    ),
    Mutation(
        "files of a kind that could not be read completely are not kept",
        "model/roots",
        "        if freed.kind in self.unknown:\n",
        "        if freed.name in self.unknown:\n",
        "unit/operations/test_unsafe_cases.py::test_truncated_and_missing_metadata_keep_what_a_root_may_need[tag/tag-t-list-cut]",
    ),
    # --- orphans ---
    Mutation(
        "a file as old as the cutoff is an orphan",
        "operations/orphans/rules/orphans",
        "if modified_ms >= self.cutoff_ms:",
        "if modified_ms > self.cutoff_ms:",
        "unit/orphans/test_scans_of_files.py::test_a_file_that_waits_for_its_commit",
    ),
    Mutation(
        "a scan beside a damaged root deletes more than temporary files",
        "operations/orphans/rules/orphans",
        'return "damaged_root" if self.damaged and found.kind != TEMP else None',
        'return "damaged_root" if self.damaged and found.kind == TEMP else None',
        "unit/orphans/test_scans_of_damage.py::test_a_scan_of_a_damaged_root_is_no_success",
    ),
    Mutation(
        "an orphan is deleted whose owner is live",
        "operations/orphans/rules/orphans",
        "if found.owner is not None and self.is_live(found.owner) else None",
        "if found.owner is not None and not self.is_live(found.owner) else None",
        "unit/orphans/test_scans_of_files.py::test_a_stale_sidecar_of_a_live_file[None]",
    ),
    Mutation(
        "an orphan's ETag is not part of its deletion",
        "operations/orphans/rules/orphans",
        "            etag=orphan.etag,\n            owner=orphan.owner,\n",
        "            owner=orphan.owner,\n",
        "unit/orphans/test_scans_of_runs.py::test_a_sidecar_that_is_written_again[OrphanScene]",
    ),
    Mutation(
        "a nested table's files are not spared",
        "operations/orphans/rules/orphans",
        "self._divide(lambda orphan: orphan.key.startswith(nested), ",
        "self._divide(lambda orphan: orphan.key.endswith(nested), ",
        "unit/orphans/test_scans_of_files.py::test_a_table_in_a_folder_of_this_one[dt=v00000]",
    ),
    # --- what a plan may hold ---
    Mutation(
        "paths with dots are plain",
        "model/paths/allowed",
        'all(part not in ("", ".", "..") for part in path.split("/"))',
        'all(part not in ("",) for part in path.split("/"))',
        "unit/model/test_allowed_moves.py::test_nothing_else_may_go[withdraw-branch_document-branch/branch-b/tag/../../../snapshot/x]",
    ),
    Mutation(
        "schemas may be deleted in any phase",
        "model/paths/allowed",
        'fine = _fits(_MOVE_DELETE_PATHS, action) and (action.kind != "schema" or action.phase == LAST_PHASE)',
        "fine = _fits(_MOVE_DELETE_PATHS, action)",
        "unit/model/test_allowed_moves.py::test_nothing_else_may_go[withdraw-schema-schema/schema-2]",
    ),
    # --- looks ---
    Mutation(
        "no recheck lists the roots before a batch",
        "execute/deletions/executor",
        "            references = self._recheck.look(deletes)\n",
        "            references = References()\n",
        "fault/test_races.py::test_no_interleaving_loses_a_live_file[tag-at_once]",
    ),
    Mutation(
        "a consumer that was reset is not noticed",
        "execute/recheck",
        "            if next_id < self.header.end_id:\n",
        "            if next_id < 0:\n",
        "fault/test_races_of_every_kind.py::test_whatever_others_do_every_root_reads[consumer_made-plain]",
    ),
    Mutation(
        "what new roots need is deleted in waves",
        "execute/waves/driver",
        "replace(each, kept=self._new_roots.needed(self._actions.of(each.part, each.start, each.stop)))",
        "each",
        "unit/execute/test_large_plans.py::test_a_root_that_appears_between_waves_keeps_its_files",
    ),
    Mutation(
        "a stored plan of orphans is not held against the roots that are there",
        "execute/present",
        "        if live.names and not has_begun:\n",
        "        if not live.names and not has_begun:\n",
        "unit/execute/test_large_plans.py::test_parts_are_read_once",
    ),
    # --- leases and guards ---
    Mutation(
        "a successor does not wait for the last batch of a run that died",
        "control/lease",
        "free_at_ms = found.expires_ms + DELETE_MARGIN_MS if found.expires_ms else 0",
        "free_at_ms = found.expires_ms",
        "unit/control/test_lease.py::test_a_successor_waits_for_deletions_under_way_beyond_the_expiry",
    ),
    Mutation(
        "the plan that a dead run left does not bind the next one",
        "control/lease",
        "if left is not None and (intent is None or intent.plan_id != left.plan_id):",
        "if left is not None and intent is not None and intent.plan_id != left.plan_id and False:",
        "unit/control/test_lease.py::test_what_a_dead_run_began_is_finished_before_another_plan",
    ),
    Mutation(
        "the lease is written without a condition",
        "control/lease",
        "if_absent=self._etag is None, if_match=self._etag)",
        "if_absent=False, if_match=None)",
        "unit/control/test_lease.py::test_a_run_that_lost_its_lease_neither_deletes_nor_gives_it_back",
    ),
    # --- what a commit may write ---
    Mutation(
        "the last commits are lost when another run takes the lease",
        "control/lease",
        "self.commits = {**known.commits, **(commits or {})}",
        "self.commits = dict(commits or {})",
        "unit/control/test_lease.py::test_the_last_commits_are_carried_on_by_every_run",
    ),
    Mutation(
        "a snapshot is written without a condition",
        "commit/publish",
        "self._store.put(self.path, self.body, if_absent=True)",
        "self._store.put(self.path, self.body)",
        "unit/commit/test_races.py::test_a_foreign_commit_is_never_replaced",
    ),
    Mutation(
        "a snapshot is sent after the lease has ended",
        "commit/publish",
        "GuardedStore(self.env.table, self.lease.refuse_late)",
        "GuardedStore(self.env.table, lambda: None)",
        "unit/commit/test_faults.py::test_no_put_is_sent_after_the_lease_has_ended",
    ),
    Mutation(
        "a base of the same id is not read again",
        "commit/publish",
        "listing if found == Body(self.base.root.body, ref.etag) else None",
        "listing if found else None",
        "unit/commit/test_races.py::test_another_base_of_the_same_id_is_noticed",
    ),
    Mutation(
        "a later snapshot than the base is overlooked",
        "commit/publish",
        "listing.snapshots[-1:] != (ref,)",
        "ref not in listing.snapshots",
        "unit/commit/test_races.py::test_a_gap_is_not_filled",
    ),
    Mutation(
        "a schema that appears meanwhile is overlooked",
        "commit/publish",
        " or listing.schemas[-1:] != (self.base.schema_ref,)",
        "",
        "unit/commit/test_races.py::test_a_new_schema_is_not_missed",
    ),
    Mutation(
        "another snapshot is prepared while a put may still take effect",
        "commit/publish",
        "self.may_exist = was_in_doubt or not _had_no_effect(error)",
        "self.may_exist = False",
        "unit/commit/test_faults.py::test_a_rollback_between_two_puts",
    ),
    Mutation(
        "a put without an answer counts as failed",
        "commit/publish",
        '                if seen == "ours":\n                    return None\n',
        '                if seen == "ours":\n                    break\n',
        "unit/commit/test_faults.py::test_a_snapshot_whose_answer_was_lost_is_ours",
    ),
    Mutation(
        "a snapshot without its base stays",
        "commit/publish",
        "if base in snapshots or not any(",
        "if snapshots or not any(",
        "unit/commit/test_races.py::test_a_base_that_vanished_takes_the_snapshot_with_it",
    ),
    Mutation(
        "a snapshot below another one is deleted",
        "commit/publish",
        "if any(each > self.id for each in ids) else self._withdraw()",
        "if not ids else self._withdraw()",
        "unit/commit/test_races.py::test_a_snapshot_with_a_successor_is_left",
    ),
    Mutation(
        "a store that ignores conditions passes",
        "commit/loop",
        "        if not self._is_proven:\n",
        "        if not self._is_proven and False:\n",
        "unit/commit/test_faults.py::test_a_store_that_ignores_the_condition_is_refused",
    ),
    Mutation(
        "a snapshot that is replaced soon is not noticed",
        "commit/loop",
        "        if not env.has_lock:\n",
        "        if env.has_lock:\n",
        "unit/commit/test_races.py::test_a_snapshot_that_is_replaced_soon_is_committed_again",
    ),
    Mutation(
        "a snapshot that was replaced is not noticed later",
        "commit/former",
        "    if snapshot is not None and snapshot.uuid == record.uuid:\n",
        "    if snapshot is not None:\n",
        "unit/commit/test_races.py::test_a_snapshot_that_is_replaced_later_is_noticed_by_the_next_commit",
    ),
    Mutation(
        "a snapshot does not wait for manifests that are written early",
        "commit/loop",
        "                early.finish()\n",
        "",
        "unit/commit/test_early.py::test_nothing_is_published_if_one_could_not_be_written",
    ),
    Mutation(
        "a snapshot names manifests that a rollback may have deleted",
        "commit/loop",
        "            self._may_reuse &= not publishing.was_sent\n",
        "",
        "unit/operations/manifests/test_second_attempt.py::test_what_a_sent_snapshot_named_is_not_used_again",
    ),
    # --- which files are live after manifests are compacted ---
    Mutation(
        "a deleted file comes back to life",
        "operations/manifests/compaction",
        "                if found:\n                    continue\n",
        "",
        "unit/operations/manifests/test_compaction.py::test_a_large_manifest_with_a_deleted_file_is_rewritten",
    ),
    Mutation(
        "a DELETE is left out whose ADD was not found",
        "operations/manifests/compaction",
        "        if self._deleted.unmatched:\n",
        "        if self._deleted.unmatched < 0:\n",
        "unit/operations/manifests/test_compaction.py::test_a_delete_whose_add_wrong_statistics_hide_is_refused",
    ),
    Mutation(
        "bytes between two digests are taken for one",
        "format/identity_digests",
        "    while position > 0 and position % _STRIDE:\n",
        "    while position > 0 and position < 0:\n",
        "unit/format/test_identity_digests.py::test_bytes_between_two_digests_are_none[False]",
    ),
    Mutation(
        "what a list says of a manifest leaves out some partitions",
        "format/manifest_writer",
        "self._partitions.add_all(row[0] for row in rows)",
        "self._partitions.add_all(row[0] for row in rows[:1])",
        "unit/operations/manifests/test_compaction.py::test_levels_buckets_row_ids_and_schemas_are_counted",
    ),
    Mutation(
        "a newer DELETE stands before the merged ADD",
        "operations/manifests/execution",
        "write_manifest_list(kept, compacted.written, newer, ",
        "write_manifest_list([*kept, *newer], compacted.written, (), ",
        "unit/operations/manifests/test_second_attempt.py::test_an_append_on_top_stands_behind_what_was_merged",
    ),
    Mutation(
        "a deleted file that is added again is used with what was merged without its DELETE",
        "operations/manifests/execution",
        "if compacted.deleted.overlaps(map(identity_digest, adds)):",
        "if compacted.deleted.overlaps(()):",
        "unit/operations/manifests/test_second_attempt.py::test_a_deleted_file_that_is_added_again_is_seen",
    ),
    Mutation(
        "files are published that an orphan scan may delete",
        "commit/loop",
        "begun.elapsed_ms() > ORPHAN_AGE_MS // 2",
        "begun.elapsed_ms() < 0",
        "unit/commit/test_faults.py::test_files_that_may_soon_be_orphans_are_not_published",
    ),
    Mutation(
        "a list is written before its manifests",
        "commit/files",
        "    write_all(others)\n    write_all(lists)\n",
        "    write_all(lists)\n    write_all(others)\n",
        "unit/commit/test_protocol.py::test_manifests_come_before_lists_and_all_before_the_snapshot",
    ),
    Mutation(
        "a hint goes back",
        "commit/hint",
        "if named is not None and named >= snapshot_id:",
        "if named == snapshot_id:",
        "unit/commit/test_protocol.py::test_the_hint_is_written_only_if_it_names_less",
    ),
    Mutation(
        "a cached base hides a rollback",
        "commit/environment",
        "while isinstance(store, RememberingStore):",
        "while isinstance(store, RememberingStore) and False:",
        "unit/commit/test_protocol.py::test_a_cached_base_does_not_hide_a_rollback",
    ),
    Mutation(
        "a suspended process deletes after its lease",
        "storage/guard",
        "        if left_ms <= 0:\n",
        "        if left_ms <= -3_600_000:\n",
        "unit/storage/test_guard.py::test_a_wall_clock_that_jumps_forth_and_back_costs_no_time",
    ),
    Mutation(
        "the time of a lease stops while the process stands still",
        "storage/clock",
        "return int(max(boot_s, wall_s) * 1000)",
        "return int(min(boot_s, wall_s) * 1000)",
        "unit/storage/test_guard.py::test_the_clock_that_says_more_is_believed[asleep]",
    ),
    Mutation(
        "a slice goes on after the lease of its wave",
        "execute/waves/slices",
        "        if self._site.area.store.now_ms() >= self._last_ms:\n            raise",
        "        if self._site.area.store.now_ms() < 0:\n            raise",
        "unit/execute/test_waves.py::test_who_stands_still_right_before_its_request_sends_none",
    ),
    Mutation(
        "an intent is not written before files are deleted",
        "execute/deletions/executor",
        "            self._ledger.intend(deletes)\n",
        "",
        "fault/test_every_deletion_recorded.py::test_what_is_gone_is_booked_and_comes_back",
    ),
    # --- which rows are deleted ---
    Mutation(
        "a deletion vector with a wrong CRC is read",
        "format/vectors/vector",
        "    if checksum != expected:\n",
        "    if checksum != checksum:\n",
        "unit/format/test_vectors.py::test_every_flip_and_every_cut[32]",
    ),
    Mutation(
        "a container is read with more rows than its header states",
        "format/vectors/containers",
        "    if count != container.rows:\n",
        "    if count < container.rows:\n",
        "unit/format/test_vectors.py::test_headers_that_lie",
    ),
    Mutation(
        "the second vector of a data file is passed over",
        "table/vectors",
        "            if other is not vector:\n",
        "            if other is None:\n",
        "unit/operations/test_deletion_vectors.py::test_index_manifests_that_lie",
    ),
    Mutation(
        "a vector may delete a row that its file does not have",
        "operations/inspect/vectors",
        "            if vector.last >= rows[path]:\n",
        "            if vector.last > rows[path]:\n",
        "unit/operations/test_deletion_vectors.py::test_bytes_that_contradict_metadata",
    ),
    Mutation(
        "index files roll before the vector that passes their size",
        "format/vectors/index_file",
        "if target_size is not None and at > target_size:",
        "if target_size is not None and at >= target_size:",
        "unit/format/test_vectors.py::test_a_file_rolls_after_the_vector_that_passes_its_size",
    ),
    # --- outside of the table, seals, conditions ---
    Mutation(
        "one allowed root allows every file outside",
        "table/fence",
        "holding = [each for each, lies in self._allowed.items() if _lies_below(lies, real)]",
        "holding = list(self._allowed)",
        "attack/test_external_paths.py::test_a_plan_carries_no_permission[roots1]",
    ),
    Mutation(
        "S3 deletes without the ETag that the plan names",
        "storage/s3/deleting",
        """condition: dict[str, Any] = {} if request.etag is None else {"IfMatch": f'"{request.etag}"'}""",
        "condition: dict[str, Any] = {}",
        "unit/storage/test_s3.py::test_conditions_are_sent",
    ),
    Mutation(
        "a marker below another one counts as restorable",
        "storage/versions",
        "    if not marker.is_current:\n",
        "    if marker is None:\n",
        "unit/storage/test_s3_versions.py::test_below_a_marker[versions6-marker_not_current]",
    ),
    Mutation(
        "a state of another day's pass still answers that nothing is due",
        "control/state",
        "return now_ms - self.checked_ms >= STATE_LIFETIME_MS",
        "return now_ms - self.checked_ms >= 1000 * STATE_LIFETIME_MS",
        "attack/test_tables_made_anew.py::test_what_a_pass_found_counts_for_a_day",
    ),
    # --- one of each: arguments, denied requests, seals ---
    Mutation(
        "an age below a day needs no word that nobody writes",
        "operations/orphans/scan",
        'if cutoff_ms > now_ms - ORPHAN_AGE_MS and not (arguments.no_writers or "").strip():',
        'if cutoff_ms > now_ms and not (arguments.no_writers or "").strip():',
        "unit/cli/test_remove_orphan_files.py::test_arguments_that_are_refused",
    ),
    Mutation(
        "a document that could not be deleted does not stop its files",
        "execute/deletions/executor",
        "            if not result.ok and step != CONSUMER_PHASE:\n",
        "            if not result.ok and step == CONSUMER_PHASE:\n",
        "fault/test_denied_deletions.py::test_a_document_that_stays_keeps_every_file[1-plain]",
    ),
    Mutation(
        "a plan without a seal is carried out where a key is configured",
        "control/seal",
        "if isinstance(seal, str) and sealer.accepts(digest_of(document), seal):",
        "if seal is None or (isinstance(seal, str) and sealer.accepts(digest_of(document), seal)):",
        "attack/test_forged_plans.py::test_a_key_makes_forged_and_unsealed_plans_refused",
    ),
    # --- rules that no second rule covers: each has a test that was written for it ---
    Mutation(
        "a freed file is kept by its own name alone",
        "model/roots",
        "return self.names.get(freed.name) or self.names.get(freed.owner)",
        "return self.names.get(freed.name)",
        "unit/execute/test_last_checks.py::test_an_extra_file_stays_with_its_data_file",
    ),
    Mutation(
        "extra files are not asked for",
        "table/reach/references",
        "            or any(extra in wanted for extra in entry.extra_files)\n",
        "",
        "unit/execute/test_last_checks.py::test_an_extra_file_is_asked_for_although_its_data_file_is_not",
    ),
    Mutation(
        "a damaged list is deleted with its snapshot",
        "table/reach/freed",
        "                    if not content.missing:\n                        continue\n                for meta",
        "                    pass\n                for meta",
        "unit/execute/test_last_checks.py::test_a_damaged_list_stays_when_its_snapshot_expires",
    ),
    Mutation(
        "a root that returns is taken for one that was there",
        "execute/recheck",
        "            self.seen.pop(path, None)\n",
        "            self.seen.get(path)\n",
        "unit/execute/test_last_checks.py::test_a_root_that_returns_is_a_new_one",
    ),
    Mutation(
        "a newest snapshot that vanished stops nothing",
        "execute/recheck",
        "        if has_gone_back:\n",
        "        if has_gone_back and end_id is None:\n",
        "unit/execute/test_last_checks.py::test_a_newest_snapshot_that_vanished_makes_a_plan_stale",
    ),
    Mutation(
        "a salvage goes on when no root is left",
        "execute/deletions/executor",
        "            if not refs:\n",
        "            if refs is None:\n",
        "unit/execute/test_last_checks.py::test_a_table_that_lost_all_its_roots_loses_no_more_files",
    ),
    Mutation(
        "documents return although files are gone",
        "execute/deletions/compensation",
        "if self._progress.data_begun or (self._saw_latest and self._newest() is None):",
        "if self._saw_latest and self._newest() is None:",
        "unit/execute/test_last_checks.py::test_documents_do_not_return_once_a_file_is_gone",
    ),
    Mutation(
        "another table below an allowed root keeps its own folder alone",
        "table/fence",
        "if _lies_below(place, folder) or _lies_below(folder, place):",
        "if _lies_below(folder, place):",
        "attack/test_external_paths.py::test_a_table_below_an_allowed_root_keeps_all_files_below_that_root",
    ),
    Mutation(
        "an undo goes on after a file that did not return",
        "execute/undo",
        "        if self._outcome.failed:\n            return  # a document that returned now could lack a file\n",
        "",
        "unit/execute/test_last_checks.py::test_no_document_returns_when_a_file_did_not",
    ),
    # --- what a repair gives up ---
    Mutation(
        "a file that may not be read counts as missing",
        "operations/repair/existence",
        "if isinstance(answer, ObjectNotFoundError):",
        "if isinstance(answer, StorageError) and answer.code != _THERE:",
        "unit/operations/repair/test_missing_files.py::test_a_file_that_is_merely_unreadable_is_not_given_up[403]",
    ),
    Mutation(
        "an external root that shows nothing counts as empty",
        "operations/repair/existence",
        '            if not self._discard(found, names, store, f"{root}/"):\n',
        '            if self._discard(found, names, store, f"{root}/") is None:\n',
        "unit/operations/repair/test_missing_files.py::test_an_external_root_that_shows_nothing_may_be_out_of_reach",
    ),
    Mutation(
        "a file that came back before the commit is left out",
        "operations/repair/run",
        "        if back:\n",
        "        if not back and back is None:\n",
        "unit/operations/repair/test_missing_files.py::test_a_file_that_comes_back_before_the_commit_stays",
    ),
    Mutation(
        "rows return that nobody accepted",
        "operations/repair/run",
        "if loss.needs and not task.arguments.accept_loss:\n            raise",
        "if loss.needs and task.arguments.accept_loss:\n            raise",
        "unit/operations/repair/test_missing_manifests.py::test_rows_that_return_have_to_be_accepted",
    ),
    # --- what a rollback as latest takes back ---
    Mutation(
        "a file may come back whose earlier life has no tag",
        "operations/branches/rules/lives",
        "all(not self.tagged.isdisjoint(life) for life in lives)",
        "any(not self.tagged.isdisjoint(life) for life in lives)",
        "unit/operations/branches/rules/test_lives.py::test_paimon_takes_no_file_that_is_safe[False]",
    ),
    Mutation(
        "no tag holds the target of a rollback as latest",
        "operations/branches/as_latest/execution",
        "            self._hold(self._task.target)\n",
        "            pass\n",
        "unit/operations/branches/test_as_latest.py::test_two_tags_without_an_end_stay_where_a_file_came_back",
    ),
    Mutation(
        "a tag that has to stay ends by the table's options",
        "operations/tags/create",
        "if retained_ms is None and not arguments.is_permanent:",
        "if retained_ms is None:",
        "unit/operations/branches/test_as_latest.py::test_two_tags_without_an_end_stay_where_a_file_came_back",
    ),
    Mutation(
        "a file that was moved is deleted and added again",
        "table/contents/difference",
        'self.moved = files["going"].keys() & files["coming"].keys()',
        "self.moved = frozenset[FileKey]()",
        "unit/operations/branches/test_as_latest.py::test_a_file_that_changed_its_level_is_not_deleted",
    ),
    Mutation(
        "nobody looks whether the files still exist after the commit",
        "operations/branches/as_latest/execution",
        "self._lost = lost_files(self._table.store, self._step.base.schema, roots, COUNTED, outside)",
        "self._lost = lost_files(self._table.store, self._step.base.schema, (), COUNTED, outside)",
        "unit/operations/branches/test_as_latest.py::test_a_file_that_an_expiry_deletes_after_the_check_is_told_at_once",
    ),
)
