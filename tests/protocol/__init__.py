"""Tests of what is said: ids, messages, bytes, policy and subjects."""
