"""In-tree plugins, one module each, named as upstream."""
