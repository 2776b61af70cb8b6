"""Simulated kubelets: nodes that speak up, pods that do what they are told."""

from bayplan.controllers.kubelet.kubelet import Kubelet

__all__ = ["Kubelet"]
