"""Let this process end with the exit code of its command.

Threads of pyarrow may still give memory back to Python. If they do so while Python ends, Python before 3.14 ends them
there, which C++ does not allow: the process aborts with exit code 134, though the command is over. So a process with
pyarrow runs what was registered for its end, and leaves out the rest of Python's shutdown.
"""

import atexit
import os
import sys
from contextlib import suppress


def end_beside_arrow(code: int) -> None:
    """End this process if it has loaded pyarrow, unless what was printed cannot be written."""
    if "pyarrow" not in sys.modules:
        return
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
