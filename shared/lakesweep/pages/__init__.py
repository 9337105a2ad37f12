"""Pages in HTML: one self-contained file each, drawn from the documents of `--json`."""
