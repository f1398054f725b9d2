"""A crawler for people who run Scrapy at scale: frontier, politeness, storage and lifecycle."""

import sys
from pathlib import Path

__version__ = "0.1.0"

# Scrapy and scrapyd append the project to sys.path, so an installed top-level package called
# `pipelines` or `middlewares` would win over ours; the project has to come first.
_ROOT = str(Path(__file__).parents[1])
if _ROOT not in sys.path[:1]:
    sys.path.insert(0, _ROOT)
