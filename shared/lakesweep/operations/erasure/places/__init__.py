"""Find every place where an erased value can still be."""
