"""Configurations, one an experiment."""
