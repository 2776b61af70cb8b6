"""Builders, fakes and strategies: shipped, because users test plugins too."""
