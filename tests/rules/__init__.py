"""Tests of the pure rules: what each decides, and the laws that hold for all."""
