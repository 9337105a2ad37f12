"""Commands on plans, runs and reports."""
