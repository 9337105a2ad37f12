"""The policies of a simulation: as typed, and the ages that are simulated if none is typed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import UsageError
from lakesweep.model.policy import INT_MAX, KeepRules
from lakesweep.model.simulation import PRESENT
from lakesweep.operations.tags.call import keep_rules
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.age import Age
from lakesweep.runs.parameters.parameter import Parameter
from lakesweep.runs.parameters.retention_options import ExpireArguments

_LIMITS: tuple[Parameter[object], ...] = (given.RETAIN_MAX, given.RETAIN_MIN, given.OLDER_THAN, given.RETAINED)
_OF_LIMITS = frozenset(each.name for each in _LIMITS)
_OF_TAGS = frozenset(each.name for each in given.KEEP)
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_AGES = {"1 h": _HOUR_MS, "1 d": _DAY_MS, "3 d": 3 * _DAY_MS, "7 d": 7 * _DAY_MS, "30 d": 30 * _DAY_MS}
MAX_CASES = 20
"""More policies in one call are a mistake."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy to simulate, before any table is known."""

    name: str
    retain_max: int | None = None
    """`None`, here and below: as the table and the fleet policy say."""
    retain_min: int | None = None
    older_than: int | Age | None = None
    keep: tuple[KeepRules, ...] = ()
    """Calendar rules for tags. Those of the fleet policy apply as well."""
    protect_commit_users: tuple[str, ...] = ()
    is_default: bool = field(default=False, compare=False)
    """Nobody asked for it: it is left out if it keeps the whole history."""

    def limits(self, now_ms: int) -> ExpireArguments:
        """Return the arguments with which `expire-snapshots` follows this policy."""
        older_than = self.older_than
        return ExpireArguments(
            retain_max=self.retain_max,
            retain_min=self.retain_min,
            older_than_ms=older_than.before(now_ms) if isinstance(older_than, Age) else older_than,
            protect_commit_users=self.protect_commit_users,
        )


def default_policies() -> tuple[Policy, ...]:
    """Return some ages. They have no maximum count, so that they show what the age alone keeps."""
    return tuple(Policy(name, INT_MAX, None, Age(age_ms), is_default=True) for name, age_ms in _AGES.items())


def policies_of(cases: Iterable[str], plain: Mapping[str, object], tag_rules: str | None) -> tuple[Policy, ...]:
    """Return the present policy, and the policies that a call gives, else the default ones.

    Args:
        cases: Texts such as `time-retained=3 d, retain-max=100, keep-daily=7`.
        plain: Values of the options `--retain-max` and so on by name; together they are one policy.
        tag_rules: A text such as `daily=7, weekly=4`, which belongs to the plain options.

    Raises:
        UsageError: A text does not parse.
    """
    found: list[Policy] = []
    values = {name: value for name, value in plain.items() if value not in (None, (), [])}
    words = [f"{name.replace('_', '-')}={_said(value)}" for name, value in values.items()]
    if tag_rules is not None:
        rules = _pairs(tag_rules, "--tag-rules", _OF_TAGS, prefix="keep_")
        if not rules:
            raise UsageError("--tag-rules: expected rules such as 'daily=7, weekly=4', found none", code="bad_argument")
        values |= rules
        words.append(f"tags {' '.join(tag_rules.split())}")
    if values:
        found.append(_policy(", ".join(words), values))
    for text in cases:
        pairs = _pairs(text, "--policy-case", _OF_LIMITS | _OF_TAGS | {given.PROTECT_COMMIT_USER.name})
        if not pairs:
            raise UsageError(
                "--policy-case: expected rules such as 'time-retained=3 d, retain-max=100', found none",
                code="bad_argument",
            )
        found.append(_policy(" ".join(text.split()), pairs))
    if len(found) > MAX_CASES:
        raise UsageError(f"--policy-case: expected at most {MAX_CASES}, found {len(found)}", code="bad_argument")
    return (Policy(PRESENT), *(_once(found) or default_policies()))


def _once(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    return tuple({policy.name: policy for policy in policies}.values())


def _said(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _pairs(text: str, option: str, known: Iterable[str], prefix: str = "") -> dict[str, object]:
    """Read `key=value` pairs. A key that is given several times has several values.

    Args:
        text: As typed.
        option: The option, for messages.
        known: The keys, with underscores.
        prefix: May be left out in front of a key.
    """
    known = frozenset(known)
    found: dict[str, list[str]] = defaultdict(list)
    for part in text.split(","):
        key, sign, value = part.partition("=")
        name = key.strip().replace("-", "_").lower()
        if prefix and name not in known and f"{prefix}{name}" in known:
            name = f"{prefix}{name}"
        if not part.strip():
            continue
        if not sign or not value.strip() or name not in known:
            words = ", ".join(sorted(each.removeprefix(prefix).replace("_", "-") for each in known))
            raise UsageError(
                f"{option}: expected pairs such as key=value with keys of {words}, found {part.strip()!r}",
                code="bad_argument",
            )
        found[name].append(value.strip())
    for name, each in found.items():
        if len(each) > 1 and name not in (given.KEEP_TAG.name, given.PROTECT_COMMIT_USER.name):
            raise UsageError(
                f"{option}: {name.replace('_', '-')}: expected one value, found {', '.join(each)}", code="bad_argument"
            )
    return {name: each if len(each) > 1 else each[0] for name, each in found.items()}


def _policy(name: str, values: Mapping[str, object]) -> Policy:
    of_tags = {each: value for each, value in values.items() if each in _OF_TAGS}
    if of_tags and given.PATTERN.name not in of_tags:
        of_tags[given.PATTERN.name] = "*"
    call = given.EXPIRE_SNAPSHOTS.parse({each: value for each, value in values.items() if each not in _OF_TAGS})
    if call[given.OLDER_THAN] is not None and call[given.RETAINED] is not None:
        raise UsageError("older_than and time_retained state the same; expected one of the two", code="bad_argument")
    return Policy(
        name=name,
        retain_max=call[given.RETAIN_MAX],
        retain_min=call[given.RETAIN_MIN],
        older_than=call[given.RETAINED] if call[given.OLDER_THAN] is None else call[given.OLDER_THAN],
        keep=keep_rules(given.EXPIRE_TAGS.parse(of_tags)),
        protect_commit_users=call[given.PROTECT_COMMIT_USER],
    )
