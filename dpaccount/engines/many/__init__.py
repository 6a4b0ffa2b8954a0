"""Many distinct noise multipliers, answered as one term."""
