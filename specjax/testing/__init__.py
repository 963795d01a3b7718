"""Shipped aids for tests: models of known law, oracles, the battery."""
