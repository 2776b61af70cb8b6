"""Talks to an API server: kubeconfig, auth, list, watch, bind, informers, leader election."""
