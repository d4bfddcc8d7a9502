"""The context room: a text snapshot and a cursor in, a token prompt out. Pure functions over frozen values; no I/O."""
