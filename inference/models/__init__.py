"""Models on disk: the registry of known ones, and fetching them."""
