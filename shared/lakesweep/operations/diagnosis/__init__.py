"""`doctor`: whether a deployment and a table are healthy. This changes nothing."""
