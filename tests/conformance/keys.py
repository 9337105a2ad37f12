"""Keys that a store refuses, and odd ones that it takes."""

BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "./a", "a/.", "a\0b", "a/\ud800", "a/\udcff"]


STRANGE_KEYS = [
    "dt=2024-01-01%2F02/bucket-0/data.parquet",
    "a b/c d",
    "a+b/c%2Bd/e%20f/100%",
    "a&b<c>d\"e'f/;?:@#$,=!*()[]{}|^~`\\",
    "ü/日本語/🙂",
    "e\u0301 and \u00e9",
    "tab\there",
    "...",
    "..a/b..",
    "-/_",
]
