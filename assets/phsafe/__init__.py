"""The stages of PHSafe. The SQL in `sql/phsafe` defines the records of each run, named as in
`mechanisms.phsafe.runs`."""
