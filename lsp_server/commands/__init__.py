"""The command's sub-commands: what `midfill` does when a person types it."""
