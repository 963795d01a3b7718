"""Acceptance of a draft: by teacher forcing, by position, against cost."""
