"""One agent's store in one SQLite file: `store.SqliteStore`."""
