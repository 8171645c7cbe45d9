"""What a paper reports: one grammar of numbers, claims of its text, whether they stand in it."""
