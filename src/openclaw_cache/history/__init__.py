"""What happened, in sums over minutes, hours and days, kept in the store."""
