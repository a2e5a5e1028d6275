"""Wire dialects: what a request asks and how a reply is cut and merged. They never translate into each other."""
