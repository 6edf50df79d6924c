"""Tests of `actors/cut`."""
