"""An attacker's gain from published tables: attacks, their expected success, and baselines, in numpy arrays.

An attack reads a publication and the attacker's knowledge, never the truth. `assets.laboratory` makes publications,
runs attacks and compares the guesses with the truth.

A record has a *type*: a *frame*, the traits of a person that an attacker may know beforehand, such as age and sex, and
a *category*, the traits that the attacker wants to know: race and ethnicity.
"""
