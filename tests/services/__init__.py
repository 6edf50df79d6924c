"""Tests of `actors/services`."""
