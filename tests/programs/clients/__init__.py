"""Real clients of models' APIs, unmodified, before the gateway and before the same provider without it."""
