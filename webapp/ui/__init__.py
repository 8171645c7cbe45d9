"""What pages share: mathematics, sanitising, template tags, static assets."""
