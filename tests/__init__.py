"""The promises of Jettison, as sentences that run."""
