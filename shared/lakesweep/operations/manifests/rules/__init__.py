"""What a compaction of manifests decides, from values alone."""
