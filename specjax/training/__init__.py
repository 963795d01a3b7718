"""Drafters fitted to their target: data, losses, trainees, the trainer."""
