"""What a device makes of a drafter: cases, their figures, tables and plots."""
