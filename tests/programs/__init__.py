"""Programs rather than tests: the demo, benchmarks, chaos, and how much views keep."""
