"""Prompts that survive the engine: states of sequences on disk, found again by their tokens, verified, or not used at all."""
