"""What a reader keeps: read state, notes, tags, lists, and what is learned from it."""
