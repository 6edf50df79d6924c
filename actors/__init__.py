"""Who acts: thin shells that load, decide and append. What to do is decided in `actors.rules`."""
