"""Maintenance of the largest tables on Spark, through PySpark. No other package uses Spark.

Spark distributes work and shuffles rows. The driver and the executors read and write through `lakesweep.storage` alone,
both tables and Lakesweep's own documents. One stage hands rows to the next in *parts* in the control location.
"""
