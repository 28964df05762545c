"""The rules of the method: no I/O, no clock, no randomness that is not passed in."""
