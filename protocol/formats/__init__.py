"""The three formats in which agents speak and providers listen: read, written, and put together."""
