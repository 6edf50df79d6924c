"""Tests of `actors/spill`."""
