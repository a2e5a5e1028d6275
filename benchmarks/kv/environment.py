"""The surroundings that the engine's own process sets before torch is imported."""

from __future__ import annotations

import os

NUM_THREADS = min(len(os.sched_getaffinity(0)), 4)

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["OMP_NUM_THREADS"] = str(NUM_THREADS)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
