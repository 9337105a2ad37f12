"""Maintenance of the largest tables on Spark, through PySpark. Nothing else here knows Spark.

Spark spreads work and shuffles; every byte of tables and of our own documents goes through `lakesweep.storage`, in the
driver as in the executors. What one stage hands to the next lies in *parts* in the control location.
"""
