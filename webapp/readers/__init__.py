"""Who reads: one-time sign-in links."""
