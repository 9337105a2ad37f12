"""Execute a notebook with a kernel of this environment. Prints what its cells printed."""

import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(Path(sys.argv[1]), as_version=4)
NotebookClient(notebook, timeout=300).execute()
cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
texts = [
    "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
    for cell in cells
]
errors = [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
print(json.dumps({"cells": texts, "errors": errors}))
