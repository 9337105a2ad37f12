"""Single changes to safety code, each of which the tests must notice."""
