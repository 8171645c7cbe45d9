"""The pages that show several apps at once; nothing imports this package."""
