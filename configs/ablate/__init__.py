"""Ablations of recipes; see experiments.ablate."""
