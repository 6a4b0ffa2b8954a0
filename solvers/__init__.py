"""Private convex optimisers: every release carries the guarantee that its run earned, as a guarantee of `dpaccount`."""
