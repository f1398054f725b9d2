"""What is known of a domain beyond its URLs: its crawl-delay, its language, and the interval they lead to."""
