"""The files of snapshots with their raw entries, for commits that build on them."""
