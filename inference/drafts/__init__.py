"""Speculative decoding: tokens that somebody thinks come next, checked by the model several at a time."""
