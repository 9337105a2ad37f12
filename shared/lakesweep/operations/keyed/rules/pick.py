"""Which runs of a bucket are compacted, and to which level.

A compaction takes the newest runs, so that rows stay in their order from level to level. It takes all runs if they are
large beside the oldest one (*size amplification*), else runs of about the same size (*size ratio*), else enough for the
*number of runs* to go down. Where readers do not see level 0, it takes the files of level 0 in any case.

Source: Paimon 1.4 `UniversalCompaction`, `ForceUpLevel0Compaction`, `CompactStrategy#pickFullCompaction`,
`MergeTreeCompactManager`. Three options make Paimon compact all runs early, or more at night
(`compaction.optimization-interval`, `compaction.offpeak.*`, `lookup-compact`): they depend on times of its own
process, and have no effect here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.options import bad_option, parse_bool, parse_int, parse_memory_bytes
from lakesweep.model.keyed import KeyedFile, Run
from lakesweep.operations.keyed.rules.levels import Levels

_TRIGGER = ("num-sorted-run.compaction-trigger", "5")
_LEVELS = "num-levels"
_AMPLIFICATION = ("compaction.max-size-amplification-percent", "200")
_RATIO = ("compaction.size-ratio", "1")
_TARGET = ("target-file-size", "128 mb")
_FORCE_UP = ("deletion-vectors.enabled", "force-lookup", "compaction.force-up-level-0")
_TOTAL = "compaction.total-size-threshold"
_INCREMENTAL = "compaction.incremental-size-threshold"


@dataclass(frozen=True, slots=True)
class LevelOptions:
    """What decides about runs."""

    trigger: int = 5
    """A bucket with fewer runs is left alone."""
    num_levels: int = 6
    """With level 0."""
    max_amplification: int = 200
    """Percent of the size of the oldest run that the newer ones may have."""
    size_ratio: int = 1
    """Percent by which the next run may be larger than those before it together."""
    target_bytes: int = 128 << 20
    """Of a data file."""
    total_bytes: int | None = None
    """A bucket with fewer bytes is compacted whole."""
    incremental_bytes: int | None = None
    """A bucket with more bytes outside its last level is compacted whole."""

    @property
    def small_bytes(self) -> int:
        """A smaller file is rewritten together with its neighbours."""
        return self.target_bytes // 10 * 7


def level_options(options: Mapping[str, str]) -> LevelOptions:
    """Return what a table's options say.

    Raises:
        RefusedError: One does not parse, or Paimon does not work with it (`bad_option`).
    """
    try:
        trigger = parse_int(options.get(*_TRIGGER), _TRIGGER[0])
        num_levels = parse_int(options[_LEVELS], _LEVELS) if _LEVELS in options else trigger + 1
        if trigger < 1:
            raise bad_option(_TRIGGER[0], "at least 1", str(trigger))
        if num_levels < 2:
            raise bad_option(_LEVELS, "at least 2", str(num_levels))
        return LevelOptions(
            trigger=trigger,
            num_levels=num_levels,
            max_amplification=parse_int(options.get(*_AMPLIFICATION), _AMPLIFICATION[0]),
            size_ratio=parse_int(options.get(*_RATIO), _RATIO[0]),
            target_bytes=parse_memory_bytes(options.get(*_TARGET), _TARGET[0]),
            total_bytes=_bytes(options, _TOTAL),
            incremental_bytes=_bytes(options, _INCREMENTAL),
        )
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def _bytes(options: Mapping[str, str], key: str) -> int | None:
    return parse_memory_bytes(options[key], key) if key in options else None


def forces_level_0(options: Mapping[str, str]) -> bool:
    """Tell whether the files of level 0 are compacted in any case.

    Raises:
        RefusedError: An option does not parse (`bad_option`).
    """
    try:
        return any(parse_bool(options.get(name, "false"), name) for name in _FORCE_UP)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


@dataclass(frozen=True, slots=True)
class Unit:
    """What one compaction of a bucket takes."""

    files: tuple[KeyedFile, ...]
    """In the order of their runs."""
    level: int
    """That of the new files."""
    why: str
    """For people."""
    clears_vectors: bool = False
    """Each file with a deletion vector is rewritten."""
    one_by_one: bool = False
    """Each file is rewritten by itself, since files between them stay."""


def pick(levels: Levels, options: LevelOptions, *, full: bool, forces_level_0: bool) -> Unit | None:
    """Choose what to compact.

    Args:
        levels: The bucket.
        options: What decides.
        full: All runs, unless only the last level has files. Of that one, the files with deleted rows.
        forces_level_0: Take the files of level 0 in any case; see the function of this name.

    Returns:
        `None`: there is nothing to do.
    """
    if not levels.runs:
        return None
    if full:
        return _pick_full(levels)
    unit = _pick(levels, options)
    if unit is None and forces_level_0 and (count := len(levels.level_0)):
        unit = _prefix(levels, _extended(levels.runs, count, options), f"level 0: {_files(count)}")
    if unit is None or (len(unit.files) == 1 and unit.files[0].level == unit.level):
        return None
    return unit


def _pick_full(levels: Levels) -> Unit | None:
    if len(levels.runs) > 1 or levels.highest != levels.last:
        count = len(levels.runs)
        return Unit(levels.files, levels.last, f"full compaction: {_runs(count)}", clears_vectors=True)
    hidden = tuple(file for file in levels.files if file.file.vector is not None)
    if not hidden:
        return None
    why = f"full compaction: {_files(len(hidden))} of level {levels.last} with deleted rows"
    return Unit(hidden, levels.last, why, clears_vectors=True, one_by_one=True)


def _pick(levels: Levels, options: LevelOptions) -> Unit | None:
    runs, trigger = levels.runs, options.trigger
    if len(runs) > 1 and (why := _early(levels, options)):
        return Unit(levels.files, levels.last, why)
    if len(runs) < trigger:
        return None
    newer, oldest = sum(map(_size, runs[:-1])), _size(runs[-1])
    if newer * 100 > options.max_amplification * oldest:
        share = newer * 100 // max(oldest, 1)
        why = f"size amplification: newer runs have {share} % of the bytes of the oldest one, allowed are "
        why += f"{options.max_amplification} %"
        return Unit(levels.files, levels.last, why)
    if (count := _extended(runs, 1, options)) > 1:
        return _prefix(levels, count, f"size ratio: {_runs(count)} of about the same size, of {len(runs)}")
    if len(runs) > trigger:
        count = _extended(runs, len(runs) - trigger + 1, options)
        return _prefix(levels, count, f"number of runs: {len(runs)}, allowed are {trigger}")
    return None


def _early(levels: Levels, options: LevelOptions) -> str:
    """Return why the whole bucket is compacted, whatever its runs."""
    total = sum(map(_size, levels.runs))
    if options.total_bytes is not None and total < options.total_bytes:
        return f"small bucket: {total} bytes, less than {options.total_bytes} ({_TOTAL})"
    upper = sum(_size(run) for run in levels.runs if run[0].level != levels.last)
    if options.incremental_bytes is not None and upper > options.incremental_bytes:
        return f"large upper levels: {upper} bytes, more than {options.incremental_bytes} ({_INCREMENTAL})"
    return ""


def _extended(runs: Sequence[Run], count: int, options: LevelOptions) -> int:
    """Return how many runs are taken if these first ones are: the next as well, while they are not much larger."""
    size = sum(map(_size, runs[:count]))
    for run in runs[count:]:
        if size * (100.0 + options.size_ratio) / 100.0 < float(_size(run)):
            break
        size += _size(run)
        count += 1
    return count


def _prefix(levels: Levels, count: int, why: str) -> Unit:
    """Return the first runs, up to the level above the next run, but not to level 0."""
    runs = levels.runs
    level = levels.last if count == len(runs) else max(0, runs[count][0].level - 1)
    while level == 0 and count < len(runs):
        level = runs[count][0].level
        count += 1
    if count == len(runs):
        level = levels.last
    return Unit(tuple(file for run in runs[:count] for file in run), level, why)


def _size(files: Sequence[KeyedFile]) -> int:
    return sum(file.file.size_bytes for file in files)


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
