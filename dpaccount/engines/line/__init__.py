"""The contour at the saddle point, and all that it is made of."""
