"""The commands: flags, a configuration, one call each."""
