"""From noisy measurements to finished tables: what is done after the draw, with public data only.

Here belongs everything that post-processing says of PHSafe's measurements. It costs no budget, as it sees no record.
"""
