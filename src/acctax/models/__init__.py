"""The decoder: its configuration, its weights, its cache and its forward pass."""
