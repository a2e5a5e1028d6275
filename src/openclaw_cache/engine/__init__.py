"""The embedded model engine: a pod like any other, reached over HTTP."""
