"""Which engine a server works with, the ways to one, and its process."""
