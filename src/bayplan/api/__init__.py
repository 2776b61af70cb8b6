"""Kubernetes objects as data: what scheduling reads of them, quantities, selectors, taints, defaults."""
