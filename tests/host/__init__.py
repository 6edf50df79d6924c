"""Tests of `actors/host`."""
