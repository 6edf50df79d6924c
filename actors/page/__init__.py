"""The page: what the audit knows, for a browser. It reads and never writes.

htmx and uPlot lie in `static` as they were released, their licences beside them; nothing is fetched from elsewhere.
"""
