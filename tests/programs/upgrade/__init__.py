"""Two releases side by side on one log, while agents work: forwards, one back, and forwards again."""
