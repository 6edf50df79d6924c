"""Tests of `actors/core`."""
