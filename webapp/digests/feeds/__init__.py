"""The feeds of digests and categories: addresses, answers, and what they hold."""
