"""The core: what the log of a conversation means. Pure: no clock, randomness, network or logging."""
