"""What a reader wants: profiles, scores, digests and feeds."""
