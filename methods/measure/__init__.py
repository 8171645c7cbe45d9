"""Measurement: timing, statistics, memory, operation counts, and the machine."""
