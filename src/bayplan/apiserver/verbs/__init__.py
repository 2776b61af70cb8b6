"""What can be done with a resource: create, read, list, watch, update, patch, delete."""
