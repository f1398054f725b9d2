"""What people who write spiders test with."""
