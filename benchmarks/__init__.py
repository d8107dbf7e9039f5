"""Speed and memory, as ratios within one run.

Here belong measurements against peers and limits. Whether something is right belongs in `tests`.
"""
