"""What a page is once it has been fetched: its verdict, its text and where it is kept."""
