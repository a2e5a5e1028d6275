"""HTTP edge: routes, server-sent events, admin."""
