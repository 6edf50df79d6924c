"""Tests of `actors/cli`."""
