"""When the model is asked: whether at all, at once, or after a wait."""
