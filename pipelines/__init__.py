"""What happens to a page once the spider has seen it: classify, store, report."""
