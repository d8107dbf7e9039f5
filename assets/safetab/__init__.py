"""The stages of SafeTab-P and SafeTab-H as assets: counts by detailed race and ethnicity group."""
