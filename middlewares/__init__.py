"""Hooks around the download and the spider, one file each; `crawlproj.settings` orders them."""
