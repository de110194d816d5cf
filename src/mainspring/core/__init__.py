"""Pure rules: no I/O, no clock, no randomness. `now` and random numbers are arguments."""
