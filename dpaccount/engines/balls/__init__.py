"""The contour in ball arithmetic: an engine that shares no number with the others, for whoever has to verify one."""
