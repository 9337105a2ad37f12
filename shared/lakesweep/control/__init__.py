"""The control location: what Lakesweep keeps outside tables, such as leases, intents, plans, ledgers and reports."""
