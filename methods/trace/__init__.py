"""Reads a method's code while its example runs: `source` looks at it, `tracer` at what it does."""
