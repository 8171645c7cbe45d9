"""What we measured: runs, their events and results, and the workers that measure."""
