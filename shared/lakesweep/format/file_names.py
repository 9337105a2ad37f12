"""Names of files: the exact forms of Paimon's manifests, index files, data files and their extra files.

Nearly every name contains a UUID and a count. So any name without exactly this form belongs to somebody else. A temp
file is an atomic write that was not finished: `.<name>.<uuid>.tmp`, and `<name><uuid>.tmp` from earlier Python writers.

Source: Paimon `FileStorePathFactory`, `DataFilePathFactory`, `FileIndexProcessor`, `LookupLevels`,
`PostponeBucketFileStoreWrite`, `ChangelogCompactTask`, `ManagedBlobReferenceFile`, `Path#createTempPath`.
"""

import re
from collections.abc import Iterable

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_TEMP = rf"\.{_UUID}\.tmp"
_FORMAT = "(?:orc|parquet|avro|csv|json|lance|vortex|mosaic|row)"
_TEXT_FORMAT = "(?:csv|json)"
_HADOOP_CODEC = "(?:gz|bz2|deflate|snappy|lz4|zst)"
_CODEC = "(?:zstd|zst|snappy|lz4|lz4_raw|lzo|gzip|gz|zlib|brotli|bzip2|bz2|deflate|none|uncompressed)"
_EXTENSION = rf"(?:\.blob|(?:\.vector)?(?:(?:\.{_CODEC})?\.{_FORMAT}|\.{_TEXT_FORMAT}\.{_HADOOP_CODEC}))"
_SIDECAR = rf"(?:-[1-9][0-9]*)?\.index|\.{_NUMBER}\.[a-z]+(?:-[a-z]+)*\.v[0-9]+\.lookup|\.row|\.blobref"

SNAPSHOT = re.compile(rf"snapshot-{_NUMBER}")
CHANGELOG_DOCUMENT = re.compile(rf"changelog-{_NUMBER}")
SCHEMA = re.compile(rf"schema-{_NUMBER}")
TAG = re.compile("tag-[^/]+")
TAG_SUCCESS = re.compile("[^/]+_SUCCESS")
CONSUMER = re.compile("consumer-[^/]+")
SERVICE = re.compile("service-[^/]+")
HINT = re.compile("EARLIEST|LATEST")
SUCCESS = re.compile("_SUCCESS")

SNAPSHOT_TEMP = re.compile(
    rf"\.(?:snapshot-{_NUMBER}|EARLIEST|LATEST){_TEMP}|(?:snapshot-{_NUMBER}|LATEST){_UUID}\.tmp"
)
CHANGELOG_TEMP = re.compile(rf"\.(?:changelog-{_NUMBER}|EARLIEST|LATEST){_TEMP}")
SCHEMA_TEMP = re.compile(rf"\.schema-{_NUMBER}{_TEMP}|schema-{_NUMBER}{_UUID}\.tmp")
TAG_TEMP = re.compile(rf"\.tag-[^/]+{_TEMP}")
TAG_SUCCESS_TEMP = re.compile(rf"\.[^/]+_SUCCESS{_TEMP}")
CONSUMER_TEMP = re.compile(rf"\.consumer-[^/]+{_TEMP}")
SERVICE_TEMP = re.compile(rf"\.service-[^/]+{_TEMP}")
SUCCESS_TEMP = re.compile(rf"\._SUCCESS{_TEMP}")
ICEBERG_TEMP = re.compile(rf"\.(?:v{_NUMBER}\.metadata\.json|version-hint\.text|retire-pending){_TEMP}")

MANIFEST_LIST = re.compile(rf"manifest-list-{_UUID}-(?:{_NUMBER}|changelog)")
MANIFEST = re.compile(rf"manifest-{_UUID}(?:-{_NUMBER})?(?:-changelog)?")
INDEX_MANIFEST = re.compile(rf"index-manifest-{_UUID}(?:-{_NUMBER})?")
INDEX = re.compile(rf"index-{_UUID}-{_NUMBER}")
GLOBAL_INDEX = re.compile(rf"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*-global-index-{_UUID}\.index")
STATISTICS = re.compile(rf"stat-{_UUID}-{_NUMBER}")
ICEBERG = re.compile(
    rf"[^/]+\.metadata\.json|{_UUID}-m{_NUMBER}\.avro|snap-{_NUMBER}-{_UUID}\.avro|version-hint\.text|retire-pending"
)
COPY_INTO = re.compile(rf"load-[0-9a-f]{{16,64}}-{_NUMBER}")
HIVE_TASK = re.compile(rf"task_{_NUMBER}\.preCommit")

BUCKET = "bucket-(0|[1-9][0-9]*|postpone)"
COMPACTED_CHANGELOG = re.compile(rf"compacted-changelog-{_UUID}\$(?P<bucket>{_NUMBER})-{_NUMBER}\.cc-{_FORMAT}")
"""The file itself, in the folder of the bucket in its name. The names of its shares are not names of files."""
COMPACTED_CHANGELOG_TEMP = re.compile(rf"tmp-compacted-changelog-{_UUID}")
BLOB_CACHE = re.compile("_bloburl_[0-9a-f]{64}")
PACK_SUFFIX = ".managed.blob"


def is_index_like(name: str) -> bool:
    """Tell whether a name looks like an index file. A data file with such a name could not be told apart from one."""
    return name.startswith("index-") or "-global-index-" in name


def data_name_pattern(
    data_prefixes: Iterable[str], changelog_prefixes: Iterable[str], *, postponed: bool
) -> re.Pattern[str]:
    """Build the pattern of data files, changelog files and their extra files.

    Its group `changelog` matches if only a changelog prefix fits. Its group `sidecar` is the text after the owner's
    name.

    Args:
        data_prefixes: All values that the option ever had, not escaped.
        changelog_prefixes: Likewise.
        postponed: Whether to accept the names that files have only in the bucket of rows without a bucket.
    """
    # The writer's user name is free text.
    user = rf"(?:-u-[^/]+-s-{_NUMBER}-w-)?" if postponed else ""
    data, changelog = _any_of(data_prefixes) + user, f"(?P<changelog>{_any_of(changelog_prefixes)})"
    return re.compile(rf"(?:{data}|{changelog}){_UUID}-{_NUMBER}{_EXTENSION}(?P<sidecar>{_SIDECAR})?")


def _any_of(prefixes: Iterable[str]) -> str:
    return f"(?:{'|'.join(re.escape(prefix) for prefix in sorted(prefixes))})"
