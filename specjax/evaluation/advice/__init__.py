"""What to draft with: by the roofline, or from records."""
