"""How numbers are made: timing, statistics, memory, operations, and the machine they belong to."""
