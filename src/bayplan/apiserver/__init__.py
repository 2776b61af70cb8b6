"""The embedded, kubectl-compatible API server on a revisioned store."""
