"""The exact result cache: keys, tiers, versions."""
