"""`make bench`: what the service costs, as ratios to a floor or a peer that is measured in the same run."""
