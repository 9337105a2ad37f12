"""Plans that rewrite a branch's documents, request by request."""
