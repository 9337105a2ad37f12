"""Reading rows: what a reader of a version has to know, as values and pure rules."""
