"""When the next request to a domain may go out, and whether it may at all."""
