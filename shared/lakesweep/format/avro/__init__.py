"""Avro containers and their decoding."""
