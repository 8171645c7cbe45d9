"""Plumbing that the apps share: revisions, hooks, leases, limits, connections, cleaned input."""
