"""Revisioned key-value stores: memory, SQLite, etcd."""
