"""Promises: what operators may rely on, each proven by injecting its fault."""
