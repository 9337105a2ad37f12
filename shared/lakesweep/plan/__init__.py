"""Planners: pure functions from facts, policy and a time to a `Plan`. They decide everything and change nothing."""
