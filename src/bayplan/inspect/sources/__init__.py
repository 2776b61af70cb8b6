"""Where pictures of clusters come from: running ones, snapshots, files and folders of any dump."""
