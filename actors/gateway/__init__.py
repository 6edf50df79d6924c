"""The gateway: it speaks the APIs of model providers, so that an agent changes its base URL and nothing else."""
