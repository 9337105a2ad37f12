"""Every grace period and safety margin, once, with its reason.

A number here is part of the safety argument (docs/safety.md). How much work is done at a time, how often something is
polled, and what something costs is said where it is used. Times are in milliseconds (`_MS`) or seconds (`_S`).
"""

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS

# --- requests: how long one may take ---

MAX_ATTEMPTS = 5
"""Attempts of one request. Between them botocore waits a random part of 1, 2, 4 and 8 s, also when S3 throttles."""
CONNECT_TIMEOUT_S = 4
READ_TIMEOUT_S = 15
LONGEST_REQUEST_S = MAX_ATTEMPTS * (CONNECT_TIMEOUT_S + READ_TIMEOUT_S) + 1 + 2 + 4 + 8
"""The time until one request has failed for good, with all its attempts. A lease must outlast a delete by this much.
For this reason the retry mode is "standard": "adaptive" also waits before a first attempt, and without bound."""
DELETES_BEGIN_WITHIN_S = 8
"""A call of `delete` sends no further request after this time, so it ends within `LONGEST_REQUEST_S` more."""
LOCK_WAIT_S = 30.0
"""A lock is held for one put or one deletion, which takes milliseconds, or a few seconds on a slow share. If it is held
longer, the other process hangs or holds the file on purpose. This limit is well below the two minutes that a lease
has left when a batch of deletes begins (`DELETE_MARGIN_MS`)."""
LITTER_AGE_MS = _DAY_MS
"""A temporary file exists while one document is written. After a day, no process writes it any more."""

# --- the lease: one maintainer at a time ---

LEASE_MS = 8 * _MINUTE_MS
"""How long a lease lasts unless it is renewed. When a worker is killed, its message comes back 720 s after it was
received (the visibility timeout of `expire`), and must find the lease free. The worker took the lease within the 120 s
that it may run, and a successor waits for `DELETE_MARGIN_MS` after the end: 120 + 480 + 120 s. If the lease lasted one
second more, the message would be sent away again to wait for a minute or more."""
DELETE_MARGIN_MS = 2 * _MINUTE_MS
"""The longest that one batch of deletes may take, including all retries of its requests."""
EPOCH_MS = 10 * _MINUTE_MS
"""A plan that deletes no document holds the lease for at most this long at a time."""
REST_MS = 90_000
"""How long a long run lets others have the lease. A run that finds the lease held tries again every minute
(`HELD_AGAIN_S`), so each gets its turn."""
HELD_AGAIN_S = 60
LEASE_LOOK_MS = 5_000
LEASE_LOOKS = 240
"""After the rest, the run looks this many times whether the lease is free again; `LEASE_LOOK_MS` is the wait in
between."""
JOB_HELD_MS = 6 * _HOUR_MS
"""A job gives up when others held the lease at every check for so long."""

# --- plans and what is remembered: how long they count ---

PLAN_LIFETIME_MS = _DAY_MS
"""How long a stored plan may wait for its execution."""
FRESH_MS = 10_000
"""For this long, the listing that a plan was made from serves as the first recheck, in the call that made the plan."""
STATE_LIFETIME_MS = _DAY_MS
"""How long the result of a pass answers later commits. So a change that the state cannot show is missed for no
longer."""
STATE_AHEAD_MS = _HOUR_MS
"""If a pass lies further in the future than this, its clock was wrong. The times in its state are then wrong, too."""
TAGS_SEEN_EVERY_MS = _DAY_MS
"""Lakesweep looks at the tags of a branch at least this often."""
OVERDUE_AFTER_MS = _DAY_MS
"""Snapshots that have been due for this long are overdue. Maintenance may run only once a day."""

# --- clocks that differ ---

CLOCK_ERROR_MS = 5_000
"""Two readings of a store's clock may differ this much. A state that is even further in the future delays no pass."""
MARKER_CLOCK_MS = 5_000
"""S3 states the time of a marker in whole seconds, and its clock may be slightly ahead of the plan's."""
GRAIN_MS = 1000
"""S3 states the time of an object in whole seconds, cut off."""
SLACK_MS = 100
"""An object has its time some moments before others can see it."""
ROLLED_BACK_MS = 5_000
"""A commit that was made so much later than another snapshot was written came after a rollback. Until then, a clock may
be wrong."""
WRITTEN_WITHIN_MS = _MINUTE_MS
"""A writer writes its snapshot at most so long after it made it. Otherwise somebody copied the document."""
CLOCK_MARGIN_MS = 5 * _MINUTE_MS
"""Time after the end of a period until Lakesweep tags the newest snapshot without waiting for a later commit. Clocks
differ, so a commit from before the end may appear late."""

# --- others at work: writers, Paimon's own expiry, readers ---

SETTLE_MS = 10_000
"""While LATEST names an older snapshot than the newest, a rollback may have begun: a rollback writes LATEST first and
removes the newer snapshots right after. After this time LATEST counts as merely behind."""
DAMAGE_WAITS_S = (5.0, 10.0, 20.0)
"""Waits for an incomplete root to disappear: Paimon's own expiry deletes the files first, then the root."""
SEEN_AGAIN_S = 5.0
"""A writer without a lock tests whether a snapshot exists, copies its own there, and may so replace ours. It does this
within a second or so. After this time, Lakesweep looks whether its snapshot is still there."""
MAX_GRACE_MS = 10 * _MINUTE_MS
"""The executor waits at most this long for readers. It has 15 minutes in total."""

# --- reading rows ---

PROTECTED_FOR_MS = _DAY_MS
"""The tag of a read lives so long, unless somebody asks for another time. A reader that dies leaves it."""

# --- orphan files ---

ORPHAN_AGE_MS = _DAY_MS
"""Paimon's default age. Without a reason, files must be at least this old."""
INVENTORY_SETTLED_MS = _DAY_MS
"""An inventory may miss objects written shortly before it was begun. It has all objects that were a day old then."""
MIN_ORPHAN_INTERVAL_MS = _DAY_MS
"""Lakesweep deletes an orphan a day after a scan saw it first, so more frequent scans find nothing more."""
SEGMENT_RULE_MS = 40 * _DAY_MS
"""After this time, a bucket rule may have deleted the cached content of manifests from a scan."""
SEGMENT_REWRITE_MS = 20 * _DAY_MS
"""Half of the time after which a bucket rule deletes a segment, so a weekly scan has two chances to copy it."""
SEGMENT_UNSAFE_MS = 38 * _DAY_MS
"""A bucket rule may delete a segment of this age while it is being copied."""
TASKS_SILENCE_MS = 3 * _MINUTE_MS
"""Longer than a worker may take. If no task reports for so long, the unfinished tasks are sent again."""
STEP_DEAD_MS = 10 * _MINUTE_MS
"""A repeated step runs only if no step ran for so long."""
SCAN_SILENCE_MS = 2 * _HOUR_MS
"""A scan takes minutes. If it has not ended after this time, it is requested again and continues."""
SCAN_LOST_MS = _DAY_MS
"""A scan that has not ended after this time is given up: its plan would be too old to be executed."""
SCAN_BEGIN_WITHIN_S = 900.0
"""If nothing of a scan can be seen after this time, no function has begun it."""
SCAN_SILENT_FOR_S = 3600.0
"""A scan has stalled if it writes nothing new for this time."""

# --- documents in the control location: how long they are kept at least ---

MESSAGE_LIFETIME_MS = 22 * _DAY_MS
"""A message waits four days in its queue, 14 days among the dead letters, and four days more after a redrive."""
KEEP_PLANS_MS = PLAN_LIFETIME_MS + MESSAGE_LIFETIME_MS + _DAY_MS
"""After this time no message and nobody's confirmation can be about a plan. The last day is a margin. A scan that has
not ended is kept as long."""
KEEP_SCANS_MS = 7 * _DAY_MS
"""A scan is given up after a day (`SCAN_LOST_MS`), its jobs end within two more, and a caller may ask for its result
for as long as a queue keeps the question, which is four days."""
KEEP_CACHES_MS = SEGMENT_RULE_MS
"""Scans stop using a segment before this time."""
KEEP_QUARANTINE_MS = 40 * _DAY_MS
"""Each scan with quarantine writes the document again, and scans are at most a month apart."""

# --- functions that run out of time ---

READ_RESERVE_MS = 10_000
"""Time that must be left for a read: for the answer, and to hand the work over."""
BATCH_RESERVE_MS = 20_000
"""Time that must be left for a batch of deletes with its recheck and its ledger entry. A slower batch dies with its
function. This is safe, and the next run finishes the batch."""
MAX_MIN_INTERVAL_MS = 3 * _HOUR_MS
"""A commit that waits longer would be handed on too often: 16 times, with a quarter of an hour each."""
