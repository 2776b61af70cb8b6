"""Profiles, and how their extension points are run."""
