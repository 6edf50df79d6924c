"""The pure core: same input, same facts; no await, clock, randomness, network or logging."""
