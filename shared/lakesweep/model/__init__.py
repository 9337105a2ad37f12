"""Values that the other packages pass to each other: table, roots, policy, facts, plan, outcome, report."""
