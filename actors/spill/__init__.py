"""Spill, the first actor: parts over their cap go to the object store and leave a pointer."""
