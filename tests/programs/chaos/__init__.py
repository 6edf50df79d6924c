"""Chaos: agents talk while workers and servers are killed; nothing may be lost, doubled, reordered or illegal."""
