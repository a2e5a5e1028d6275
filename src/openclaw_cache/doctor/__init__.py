"""What breaks the reuse of prefixes in a log of requests, what it costs, and what would mend it. No I/O, no clock."""
