"""How the tables of an overview add up, and which comes first: pure rules."""
