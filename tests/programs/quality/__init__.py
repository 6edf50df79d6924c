"""How much of what an agent uses next is still in its view, at what price; no model judges."""
