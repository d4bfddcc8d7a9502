"""What is known of the workspace's code: one SQLite file a root, filled by a process of its own, kept fresh, asked by name."""
