"""`midfill doctor`: what the machine, the installation and the model are like, one finding a line, and what to do."""
