"""Measurement runs, their events and results, and the workers that execute them."""
