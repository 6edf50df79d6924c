"""Fuzzing: bytes of strangers, changed at random, into whatever reads them."""
