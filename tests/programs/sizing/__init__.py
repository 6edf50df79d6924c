"""How many servers, workers and disks, and what they cost, for so many agents: see `infra/docs/sizing.md`."""
