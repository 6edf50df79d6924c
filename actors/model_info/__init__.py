"""What is known of models: how they count, how much they take, what they cost."""
