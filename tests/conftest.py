"""What every test can ask for."""

pytest_plugins = ["crawlproj.testing.plugin"]
