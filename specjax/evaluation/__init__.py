"""Measurement: what programs cost, how fast and how exact methods are."""
