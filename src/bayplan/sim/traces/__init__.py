"""Traces: what came and left on a cluster, from files, importers and generators."""
