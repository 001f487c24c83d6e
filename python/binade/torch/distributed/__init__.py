"""A compiled step on several processes (docs/Distributed.md)."""
