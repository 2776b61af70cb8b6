"""The embedded, kubectl-compatible API server on a store."""
