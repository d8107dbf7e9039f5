"""What an attacker learns from published tables: attacks, their expected success, and baselines, in numpy arrays.

An attack reads a publication and what the attacker knows, and never the truth. `assets.laboratory` makes publications,
runs attacks and compares the guesses with the truth.

A record has a *type*: a *frame*, what an attacker may know of a person beforehand, such as age and sex, and a
*category*, what the attacker wants to know: race and ethnicity.
"""
