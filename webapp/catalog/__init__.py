"""Methods that the site carries, the papers linked to them, and claims beside measurements."""
