"""Which methods we carry, which papers concern them, and claims beside measurements."""
