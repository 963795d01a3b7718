"""What the parts of a round cost, and the time that they predict."""
