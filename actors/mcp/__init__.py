"""MCP: what left a view is read back by tools that any client of the Model Context Protocol can call."""
