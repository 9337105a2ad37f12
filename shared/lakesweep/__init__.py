"""Maintenance of Apache Paimon tables.

A *table* is a directory of immutable files. Its *roots* are the documents that make files readable: snapshots, tags
and long-lived changelogs, of every branch. An *operation* loads facts about a table and plans what may be deleted. On
request it executes the plan. A file that some root needs is never in a plan.
"""

__version__ = "0.1.0"
