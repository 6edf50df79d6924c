"""What answers agents, and what looks for lost wake-ups."""
