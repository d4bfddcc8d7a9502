"""Which prompt a request gets, and what of other places stands in it."""
