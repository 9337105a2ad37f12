"""How long roots are kept, by the rules of a pass."""
