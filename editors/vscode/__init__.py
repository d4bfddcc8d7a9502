"""The extension for VS Code; of Python, what writes its manifest's settings."""
