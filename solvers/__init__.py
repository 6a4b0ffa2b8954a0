"""Private convex optimisers that consume budgets accounted by `dpaccount`. None has landed yet."""
