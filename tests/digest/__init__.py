"""Tests of `actors/digest`."""
