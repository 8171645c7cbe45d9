"""A reader's library: read state, notes, tags, lists, and what is learned from them."""
