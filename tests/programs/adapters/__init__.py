"""Agents of real frameworks with our adapters, each in an environment of its own; judged by what is in the log."""
