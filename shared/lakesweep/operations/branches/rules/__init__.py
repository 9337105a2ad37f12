"""How histories relate: pure rules."""
