"""The control location: what we keep outside tables, such as leases, intents, plans, ledgers and reports."""
