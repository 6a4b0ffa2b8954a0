"""The contour in ball arithmetic."""
