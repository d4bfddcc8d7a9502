"""What became of what was offered, and what that teaches."""
