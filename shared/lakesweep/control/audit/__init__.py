"""What ledgers, plans and reports say, checked against each other."""
