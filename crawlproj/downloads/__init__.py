"""How pages come over the wire."""
