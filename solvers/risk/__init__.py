"""What theorems say about risk, as functions."""
