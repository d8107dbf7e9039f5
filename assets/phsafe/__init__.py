"""The stages of PHSafe. The SQL in `sql/phsafe` defines what each run counts, named as in `mechanisms.phsafe.runs`."""
