"""What arXiv says: papers, their versions, and a provable intake."""
