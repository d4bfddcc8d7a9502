"""The clients in the real editors: one list of behaviours for all of them, and what is on disk afterwards."""
