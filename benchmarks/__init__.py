"""Speed and memory, measured against peers and limits as ratios within one run."""
