"""What is prefilled or generated before it is asked for, and how much of that is allowed."""
