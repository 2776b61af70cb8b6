"""Paths below an object that are more than a part of it: binding, eviction, scale, and reviews."""
