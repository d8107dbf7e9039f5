"""Planning a PHSafe release: what its budgets buy in accuracy, and what other margins of error would cost.

Here belongs what follows from the design alone. Nothing here reads a record, so all of it is public.
"""
