"""Tests of `actors/model_info`."""
