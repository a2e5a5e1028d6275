"""Where one prompt leaves another, why, and what it costs. Pure: no I/O, no clock."""
