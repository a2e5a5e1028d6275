"""Byte stores: the embedded Valkey and remote Redis-protocol servers."""
