"""What runs one actor: take a slot, load, decide, act, append, free the slot, look again."""
