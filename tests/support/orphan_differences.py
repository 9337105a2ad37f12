"""Why two cleaners may differ over an orphan file."""

from __future__ import annotations

RULES = {
    "unknown name": "only the engine takes it: Paimon gives no file in this folder such a name",
    "marker": "only the engine takes it: `_SUCCESS`, by which schedulers know that a partition is done",
    "odd bucket": "only the engine takes it: the folder's name begins with `bucket-`, and it is no bucket",
    "no bucket": "only the engine takes it: the file lies straight in a partition that has no bucket",
    "link cache": "only the engine takes it: a cache of links beside the data; ours reports it",
    "pack": "only the engine takes it: rows of any data file may lie in a managed pack, and no manifest names it",
    "index among data": "only the engine takes it: no schema of the table says that index files lie beside data files",
    "index of a live file": "only the engine takes it: a writer may be about to write the index of a live file again",
    "staging outside": "only the engine takes it: what a compaction of changelogs left, in an external root",
    "damaged root": "only the engine takes it: a root is not whole, so nobody knows what it needs",
    "needed": "only the engine takes it: a root that is not whole any more needs it",
    "twin": "only ours takes it: of several files of one name the engine takes one in a run",
    "temp": "only ours takes it: what an atomic write left in a folder that the engine does not clean",
    "table beside its data directory": "only ours takes it: the engine looks below `data-file.path-directory` alone",
    "external root": "only ours takes it: with `data-file.path-directory` the engine looks at no external root",
    "the engine stopped": "only ours takes it: the engine stopped at something foreign or damaged",
}
"""What explains a difference."""
