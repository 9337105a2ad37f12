"""Expiry of Lakesweep's own documents in a control location."""
