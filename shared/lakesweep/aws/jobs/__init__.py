"""Spark jobs on EMR Serverless."""
