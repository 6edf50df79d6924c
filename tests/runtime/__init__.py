"""Tests of `actors/runtime`."""
