"""What any plan may touch.

The last check before a delete: only exact keys of known kinds, in the folders of that kind. A planner keeps files that
do not match. A stored plan with another action is refused as a whole.
"""

import re
from collections.abc import Mapping

from lakesweep.errors import RefusedError
from lakesweep.model.plan import MOVE_PHASES, Action, Put

_BRANCH = r"(?:branch/branch-[^/]+/)?"
_ANY = re.DOTALL
_NOT_METADATA = r"(?!(?:snapshot|changelog|tag|schema|consumer|branch|manifest|index|statistics|service|metadata)/)"
_BUCKET_FOLDER = _NOT_METADATA + r"(?:.+/)?bucket-(?:0|[1-9][0-9]*|postpone)/"
_BUCKET = re.compile(_BUCKET_FOLDER + r"[^/]+", _ANY)
_INDEX_NAME = re.compile(r"index-.+|.+-global-index-.+", _ANY)
"""Index files may lie among data files. There, only index files have such names, and they have no other names."""
_ID = r"(?:0|[1-9][0-9]{0,18})"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TEMP_NAMES = {
    _BRANCH + r"snapshot/": rf"(?:\.(?:snapshot-{_ID}|EARLIEST|LATEST)\.|snapshot-{_ID}|LATEST){_UUID}\.tmp",
    _BRANCH + r"changelog/": rf"\.(?:changelog-{_ID}|EARLIEST|LATEST)\.{_UUID}\.tmp",
    _BRANCH + r"tag/": rf"\.tag-[^/]+\.{_UUID}\.tmp",
    _BRANCH + r"tag/tag-success-file/": rf"\.[^/]+_SUCCESS\.{_UUID}\.tmp",
    _BRANCH + r"schema/": rf"(?:\.schema-{_ID}\.|schema-{_ID}){_UUID}\.tmp",
    _BRANCH + r"consumer/": rf"\.consumer-[^/]+\.{_UUID}\.tmp",
    r"service/": rf"\.service-[^/]+\.{_UUID}\.tmp",
    r"metadata/": rf"\.(?:v{_ID}\.metadata\.json|version-hint\.text|retire-pending)\.{_UUID}\.tmp",
    _NOT_METADATA + r"(?:.+/)?[^/]+=[^/]+/": rf"\._SUCCESS\.{_UUID}\.tmp",
    _BUCKET_FOLDER: rf"tmp-compacted-changelog-{_UUID}",
}
"""Folder -> temp files in it. Each name contains the UUID of one failed write, so it never occurs again."""
_DELETE_PATHS = {
    "snapshot": (re.compile(_BRANCH + r"snapshot/snapshot-[0-9]+", _ANY),),
    "changelog_document": (re.compile(_BRANCH + r"changelog/changelog-[0-9]+", _ANY),),
    "consumer": (re.compile(_BRANCH + r"consumer/consumer-[^/]+", _ANY),),
    "tag": (re.compile(_BRANCH + r"tag/tag-(?!success-file/.*_SUCCESS\Z).+", _ANY),),
    "tag_success": (re.compile(_BRANCH + r"tag/tag-success-file/[^/]+_SUCCESS", _ANY),),
    "hint": (re.compile(_BRANCH + r"changelog/(?:EARLIEST|LATEST)", _ANY),),
    "data": (_BUCKET,),
    "extra": (_BUCKET,),
    "changelog": (_BUCKET,),
    "index": (re.compile(r"index/[^/]+", _ANY), _BUCKET),
    "index_manifest": (re.compile(r"manifest/[^/]+", _ANY),),
    "manifest": (re.compile(r"manifest/[^/]+", _ANY),),
    "manifest_list": (re.compile(r"manifest/[^/]+", _ANY),),
    "statistics": (re.compile(r"statistics/[^/]+", _ANY),),
    "temp": tuple(re.compile(folder + name, _ANY) for folder, name in _TEMP_NAMES.items()),
}
_PUT_PATHS = {
    "hint": re.compile(_BRANCH + r"(?:snapshot|changelog)/(?:EARLIEST|LATEST)", _ANY),
    "changelog_document": re.compile(_BRANCH + r"changelog/changelog-[0-9]+", _ANY),
    "consumer": re.compile(_BRANCH + r"consumer/consumer-[^/]+", _ANY),
    "tag": re.compile(_BRANCH + r"tag/tag-(?!success-file\Z)[^/]+", _ANY),
    "tag_success": re.compile(_BRANCH + r"tag/tag-success-file/[^/]+_SUCCESS", _ANY),
}
_MOVE_DELETE_PATHS = {
    kind: _DELETE_PATHS[kind][0] for kind in ("snapshot", "changelog_document", "consumer", "tag", "tag_success")
} | {
    "hint": _PUT_PATHS["hint"],
    "schema": re.compile(_BRANCH + r"schema/schema-[0-9]+", _ANY),
    "branch_document": re.compile(
        r"branch/branch-[^/]+/(?:snapshot|changelog|tag|schema|consumer)/(?!(?:snapshot|changelog|schema)-[0-9]+\Z|tag-).+",
        _ANY,
    ),
}
"""Documents that a branch rewrite, or the deletion of a branch, may delete: documents, never a file. A
`branch_document` is any other object in the folders of a branch, such as the temporary file of a dead writer."""
_MOVE_PUT_PATHS = _PUT_PATHS | {kind: _MOVE_DELETE_PATHS[kind] for kind in ("snapshot", "schema", "branch_document")}
LAST_PHASE = MOVE_PHASES[-1]
"""Schemas are deleted only in this phase, when no root uses them any more."""
_EXTERNAL_KINDS = frozenset({"data", "extra", "changelog", "index"})
_EXTERNAL = re.compile(r"(?:[a-z][a-z0-9+.-]*:/)?/.+", _ANY)


def is_external(path: str) -> bool:
    """Tell whether a path is an absolute URI or path, not relative to the table root."""
    return _EXTERNAL.fullmatch(path) is not None


def may_delete(kind: str, path: str) -> bool:
    """Tell whether a path is an exact key in a folder for objects of this kind.

    The caller must check whether an external path lies below a declared root.
    """
    if kind in _EXTERNAL_KINDS and not path.startswith("index/"):
        is_index = _INDEX_NAME.fullmatch(path.rpartition("/")[2]) is not None
        if is_index != (kind == "index") and kind != "extra":
            return False
    if is_external(path):
        return kind in _EXTERNAL_KINDS and _is_plain(path.split("://", 1)[-1].lstrip("/"))
    return _is_plain(path) and any(pattern.fullmatch(path) for pattern in _DELETE_PATHS.get(kind, ()))


def check_action(action: Action) -> None:
    """Refuse an action that no plan may contain.

    Raises:
        RefusedError: With code `forbidden_action`.
    """
    moves = action.phase in MOVE_PHASES
    if isinstance(action, Put):
        fine = _fits(_MOVE_PUT_PATHS if moves else _PUT_PATHS, action)
    elif moves:
        fine = _fits(_MOVE_DELETE_PATHS, action) and (action.kind != "schema" or action.phase == LAST_PHASE)
    else:
        fine = may_delete(action.kind, action.path)
    if not fine:
        raise RefusedError(
            f"no plan may {type(action).__name__.lower()} {action.kind} {action.path!r} in phase {action.phase!r}",
            code="forbidden_action",
        )


def _fits(patterns: Mapping[str, re.Pattern[str]], action: Action) -> bool:
    pattern = patterns.get(action.kind)
    return pattern is not None and _is_plain(action.path) and pattern.fullmatch(action.path) is not None


def _is_plain(path: str) -> bool:
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
