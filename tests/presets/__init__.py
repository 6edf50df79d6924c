"""Presets: the own cases of each system that a preset reproduces, by their numbers, against our rules."""
