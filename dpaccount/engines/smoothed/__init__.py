"""The contour of a smoothed loss: a bracket where the characteristic function hardly decays."""
