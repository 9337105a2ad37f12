"""Which documents of a control location may go."""
