"""Tests of the shells around the rules."""
