"""Clients of an engine: what the server room talks to."""
