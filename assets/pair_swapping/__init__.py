"""The stages of a release by targeted pair swapping, as in the 2010 census: for comparison, without a finite loss."""
