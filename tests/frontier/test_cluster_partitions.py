"""A frontier of several partitions on a Redis Cluster, each in a slot of its own."""

from __future__ import annotations

from tests.frontier import test_partitions
from tests.frontier.cluster import collected

globals().update(collected(test_partitions, "frontier", "make"))
