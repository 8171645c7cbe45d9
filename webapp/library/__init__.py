"""A reader's library: read state, notes, lists, and what is learned from them."""
