"""Comparisons with what a user would pick instead, one command each."""
