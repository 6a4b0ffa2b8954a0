"""Side by side with dp-accounting, in one process, cold objects, medians; results are committed as JSON."""
