"""The broker process: network, request dispatch, handlers, coordinators; the composition root."""
