"""Cases from public bug reports, and what runs them: `python -m tests.cases`."""
