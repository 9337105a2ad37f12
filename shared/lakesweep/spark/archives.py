"""Keep Spark's Python workers from doing the same work for each task.

Before each task a worker empties the caches of imports. Python 3.10 and later then reads the directory of an archive
once for each package that was imported from it. For the archive of pyspark this took 0.16 s of each task, more than
many a task has to do. After each task a worker collects garbage, and looks at all objects of all modules for that.
"""

import gc
import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Let the import system forget the archives that it knows. It finds them again when something is imported."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)


def keep_modules() -> None:
    """Let the garbage collector of a worker pass over what is there after its first task: nearly all of it stays.

    Nowhere else: other processes live longer, and have more that goes.
    """
    if "pyspark.worker" in sys.modules and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
