"""From records to figures: statistics, summaries, tables, plots."""
