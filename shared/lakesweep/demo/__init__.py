"""The demo: a writer, an S3 with events, retention after each commit, and a reader that checks the result.

Everything runs in this process and on 127.0.0.1, and leaves nothing behind. Needs `lakesweep[demo]`.
"""
