"""The Common Expression Language as Kubernetes uses it: typed, with its libraries and cost limits.

One evaluator for rules of custom resources, admission policies, match conditions and device
selectors. See docs/design/cel.md.
"""
