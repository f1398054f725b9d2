"""One file per spider."""
