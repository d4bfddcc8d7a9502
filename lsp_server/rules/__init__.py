"""What of a generation is worth offering: rules over text, pure and deterministic. No clock, no event loop, no protocol."""
