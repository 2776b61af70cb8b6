"""Deciding as kube-scheduler does, checked: recordings, and the real scheduler asked side by side.

`compare` says where two decisions differ, `oracle` asks the program of `hack/oracle`, `fuzz` draws
cases and compares, `shrink` makes a differing case small, `sequence` keeps one engine through
changes. Commands are in `bayplan.cli`.
"""
