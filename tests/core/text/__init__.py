"""Tests of `actors/core/text`."""
