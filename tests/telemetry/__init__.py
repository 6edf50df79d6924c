"""Tests of `actors/telemetry`."""
