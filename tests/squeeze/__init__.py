"""Tests of `actors/squeeze`."""
