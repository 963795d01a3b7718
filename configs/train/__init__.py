"""Recipes of drafters; see experiments.train."""
