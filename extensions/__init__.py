"""Hooks around the whole crawl."""
