"""Run every task of examples/airflow_dag.py in this process. Prints what came of it."""

import json

from airflow.utils.db import initdb

initdb()
from airflow_dag import lakesweep_maintenance  # noqa: E402 - it needs the database

found = lakesweep_maintenance().test()
tasks = {f"{each.task_id}[{each.map_index}]": str(each.state) for each in found.get_task_instances()}
print(json.dumps({"state": str(found.state), "tasks": tasks}))
